-- Whether the ports of a workspace reach one another in a browser, and its IDE shows them (docs/adr/0044).

ALTER TABLE workspaces ADD COLUMN cross_port_access boolean NOT NULL DEFAULT false;
GRANT INSERT (cross_port_access), UPDATE (cross_port_access) ON workspaces TO codehub_api;

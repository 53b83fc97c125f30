-- Whether codehub's script goes into the pages of a workspace's IDE (docs/adr/0043).

ALTER TABLE workspaces ADD COLUMN tab_script boolean NOT NULL DEFAULT true;
GRANT INSERT (tab_script), UPDATE (tab_script) ON workspaces TO codehub_api;

-- Ports of a workspace that more than its owner may enter. A port without a row is private.

CREATE TABLE workspace_ports (
    workspace_id uuid NOT NULL REFERENCES workspaces (id),
    port integer NOT NULL CONSTRAINT workspace_ports_port CHECK (port BETWEEN 1 AND 65535),
    visibility varchar(16) NOT NULL
        CONSTRAINT workspace_ports_visibility CHECK (visibility IN ('shared', 'signed-in', 'public')),
    expires_at timestamptz,
    PRIMARY KEY (workspace_id, port),
    CONSTRAINT workspace_ports_public_ends CHECK (visibility <> 'public' OR expires_at IS NOT NULL)
);
COMMENT ON TABLE workspace_ports IS 'Not the controller''s: a port is a way in, and nothing that is run.';
GRANT SELECT, INSERT, UPDATE, DELETE ON workspace_ports TO codehub_api;

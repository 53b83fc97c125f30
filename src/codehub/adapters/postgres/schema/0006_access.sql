-- Failed sign-ins per account and address, the request that changed a workspace last, and the order in which streams read.

-- UNLOGGED: after a crash a guesser may begin anew, and nobody is locked out.
CREATE UNLOGGED TABLE login_failures (
    key_sha256 bytea PRIMARY KEY CONSTRAINT login_failures_key_is_hashed CHECK (octet_length(key_sha256) = 32),
    failures integer NOT NULL CONSTRAINT login_failures_positive CHECK (failures > 0),
    last_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX login_failures_age ON login_failures (last_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON login_failures TO codehub_api;

ALTER TABLE workspaces ADD COLUMN request_id varchar(64);
COMMENT ON COLUMN workspaces.request_id IS 'Of the last request that changed what people set: the controller''s events carry it on.';
GRANT INSERT (request_id), UPDATE (request_id) ON workspaces TO codehub_api;

-- A stream goes by (xact, seq): a transaction may take its id before, and its numbers after, one that commits earlier.
CREATE INDEX workspace_events_in_order ON workspace_events (xact, seq);
CREATE INDEX workspace_events_of_owner_in_order ON workspace_events (owner_user_id, xact, seq);
DROP INDEX workspace_events_of_owner;

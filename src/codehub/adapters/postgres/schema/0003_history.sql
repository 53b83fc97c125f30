-- What goes with the workspaces: their history, keys of creations, live controllers, progress.

-- Serial numbers commit out of order: a reader that must miss nothing reads only rows with xact < pg_snapshot_xmin(…).
CREATE TABLE workspace_events (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    workspace_id uuid NOT NULL REFERENCES workspaces,
    owner_user_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT workspace_events_kind
        CHECK (kind IN ('wish', 'operation', 'phase', 'error', 'recovery', 'deletion')),
    before text,
    after text,
    actor text NOT NULL,
    reason text NOT NULL,
    request_id text
);
COMMENT ON COLUMN workspace_events.owner_user_id IS 'Copied from the workspace, so that a user''s stream reads one index.';
CREATE INDEX workspace_events_of_workspace ON workspace_events (workspace_id, seq);
CREATE INDEX workspace_events_of_owner ON workspace_events (owner_user_id, seq);
-- For retention only. Time goes up with the row's place in the table, so a few ranges are enough.
CREATE INDEX workspace_events_at ON workspace_events USING brin (at);

-- POST /workspaces: the same key and body give the same workspace.
CREATE TABLE idempotency_keys (
    owner_user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    key varchar(255) NOT NULL,
    body_sha256 bytea NOT NULL CONSTRAINT idempotency_keys_body_is_hashed CHECK (octet_length(body_sha256) = 32),
    workspace_id uuid NOT NULL REFERENCES workspaces,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (owner_user_id, key)
);
CREATE INDEX idempotency_keys_created_at ON idempotency_keys (created_at);

CREATE TABLE controllers (
    id uuid PRIMARY KEY,
    host text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- UNLOGGED: written every second, and worth nothing after a crash.
CREATE UNLOGGED TABLE workspace_progress (
    workspace_id uuid PRIMARY KEY REFERENCES workspaces,
    op_id uuid NOT NULL,
    stage text NOT NULL CONSTRAINT workspace_progress_stage
        CHECK (stage IN ('archive', 'verify', 'restore', 'pull')),
    done_bytes bigint NOT NULL CONSTRAINT workspace_progress_done CHECK (done_bytes >= 0),
    total_bytes bigint,
    bytes_per_second double precision,
    eta_seconds double precision,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

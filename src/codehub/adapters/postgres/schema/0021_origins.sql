-- An origin per workspace: its label, the codes by which a browser comes there from the hub, and the doors that
-- it then has. Who comes with a door comes as the session that it is a child of, and is gone with it.

-- The database makes it, and nobody sets it: the release before makes rows without naming it. A UUID's first 48 bits are random.
ALTER TABLE workspaces ADD COLUMN label varchar(20) NOT NULL
    DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 10) || left(replace(gen_random_uuid()::text, '-', ''), 10)
    CONSTRAINT label_is_80_bits CHECK (label ~ '^[0-9a-f]{20}$');
CREATE UNIQUE INDEX idx_workspaces_label ON workspaces (label);

CREATE TABLE door_codes (
    code_sha256 bytea PRIMARY KEY CONSTRAINT door_codes_code_is_hashed CHECK (octet_length(code_sha256) = 32),
    session_sha256 bytea NOT NULL REFERENCES sessions (id_sha256) ON DELETE CASCADE,
    workspace_id uuid NOT NULL REFERENCES workspaces (id),
    port integer CONSTRAINT door_codes_port CHECK (port BETWEEN 1 AND 65535),
    challenge bytea NOT NULL CONSTRAINT door_codes_challenge_is_hashed CHECK (octet_length(challenge) = 32),
    path varchar(4096) NOT NULL CONSTRAINT door_codes_path_is_of_the_origin CHECK (path ~ '^/([^/\\]|$)'),
    expires_at timestamptz NOT NULL
);
COMMENT ON COLUMN door_codes.challenge IS 'The hash of what the browser that asked has in a cookie of the origin''s: no other can use the code.';
CREATE INDEX idx_door_codes_session ON door_codes (session_sha256);
GRANT SELECT, INSERT, DELETE ON door_codes TO codehub_api;

CREATE TABLE doors (
    door_sha256 bytea PRIMARY KEY CONSTRAINT doors_door_is_hashed CHECK (octet_length(door_sha256) = 32),
    session_sha256 bytea NOT NULL REFERENCES sessions (id_sha256) ON DELETE CASCADE,
    workspace_id uuid NOT NULL REFERENCES workspaces (id),
    port integer CONSTRAINT doors_port CHECK (port BETWEEN 1 AND 65535),
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX idx_doors_session ON doors (session_sha256);
GRANT SELECT, INSERT, DELETE ON doors TO codehub_api;

-- People and their keys: users, sessions, API tokens. And the one row that says which installation this is.

CREATE TABLE installation (
    is_the_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_the_only_row),
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE installation IS 'Exactly one row. Its id labels everything this installation makes elsewhere.';
INSERT INTO installation DEFAULT VALUES;

CREATE TABLE users (
    id uuid PRIMARY KEY,
    username varchar(255) NOT NULL CONSTRAINT users_username_not_empty CHECK (username <> ''),
    password_hash text NOT NULL CONSTRAINT users_password_is_argon2id CHECK (password_hash LIKE '$argon2id$%'),
    role text NOT NULL CONSTRAINT users_role CHECK (role IN ('admin', 'member')),
    disabled boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- "Ann" and "ann" are one person, however the name was typed.
CREATE UNIQUE INDEX users_username_unique ON users (lower(username));

CREATE TABLE sessions (
    id_sha256 bytea PRIMARY KEY CONSTRAINT sessions_id_is_hashed CHECK (octet_length(id_sha256) = 32),
    user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE api_tokens (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    name varchar(255) NOT NULL CONSTRAINT api_tokens_name_not_empty CHECK (name <> ''),
    token_sha256 bytea NOT NULL UNIQUE CONSTRAINT api_tokens_token_is_hashed CHECK (octet_length(token_sha256) = 32),
    scope text NOT NULL CONSTRAINT api_tokens_scope CHECK (scope IN ('read', 'write')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_tokens_of_user ON api_tokens (user_id);

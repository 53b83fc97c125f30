-- A user who signs in some other way has no password. Whoever has one has an argon2id hash, as before: a CHECK passes NULL.

ALTER TABLE users ALTER COLUMN password_hash DROP NOT NULL;
COMMENT ON COLUMN users.password_hash IS 'NULL: this user has no password, and can''t sign in by one.';

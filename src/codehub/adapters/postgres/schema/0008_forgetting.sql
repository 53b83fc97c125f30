-- A deletion that a dead backend holds up, given up by an admin: the controller lets go of it, and what is left lies where it was.

ALTER TABLE workspaces ADD COLUMN forgotten_at timestamptz,
    ADD CONSTRAINT workspaces_forgotten_is_deleted CHECK (forgotten_at IS NULL OR deleted_at IS NOT NULL);
GRANT INSERT (forgotten_at), UPDATE (forgotten_at) ON workspaces TO codehub_api;

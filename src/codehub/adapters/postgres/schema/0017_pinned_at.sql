-- A person pins a workspace to the top of lists.

ALTER TABLE workspaces ADD COLUMN pinned_at timestamptz;
GRANT INSERT (pinned_at), UPDATE (pinned_at) ON workspaces TO codehub_api;

-- By what lists are ordered, beside the id (core/listing.py): a row comparison with NULL would be NULL, so that what is not pinned
-- has a time before all others.
CREATE FUNCTION list_time(pinned_at timestamptz) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(pinned_at, '1970-01-01T00:00:00Z'::timestamptz);

DROP INDEX idx_workspaces_owner;
CREATE INDEX idx_workspaces_owner ON workspaces (owner_user_id, list_time(pinned_at), id);
CREATE INDEX idx_workspaces_list ON workspaces (list_time(pinned_at), id);

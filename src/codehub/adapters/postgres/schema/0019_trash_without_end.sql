-- A deletion without a time lies in the trash until a person purges it (CODEHUB_TRASH_SECONDS=never).

ALTER TABLE workspaces DROP CONSTRAINT workspaces_deletion_has_purge_time;
ALTER TABLE workspaces ADD CONSTRAINT workspaces_purge_time_has_deletion
    CHECK (purge_at IS NULL OR deleted_at IS NOT NULL);

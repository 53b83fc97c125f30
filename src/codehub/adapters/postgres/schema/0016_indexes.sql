-- Indexes are called idx_workspaces_…, and each is read by a statement of the program. What only tests read is gone, and so are
-- the functions and statistics that only those indexes used.

DROP INDEX workspaces_due;
DROP INDEX workspaces_trash;
DROP INDEX workspaces_operations;
DROP INDEX workspaces_errors;
DROP STATISTICS workspaces_due_share;
DROP FUNCTION is_due(text, text, text, timestamptz, timestamptz, jsonb);
DROP FUNCTION error_time(jsonb);

ALTER INDEX workspaces_name_unique RENAME TO idx_workspaces_name;
ALTER INDEX workspaces_of_owner RENAME TO idx_workspaces_owner;
ALTER INDEX workspaces_idle RENAME TO idx_workspaces_idle;
ALTER INDEX workspaces_running RENAME TO idx_workspaces_running;
ALTER INDEX workspaces_changed RENAME TO idx_workspaces_changed;

-- Contract 3: each column has one owner, and the database refuses anybody else. A column that is not named here belongs to
-- the database: it has a default, a trigger or an expression.

GRANT USAGE ON SCHEMA public TO codehub_api, codehub_controller;

GRANT SELECT ON workspaces, workspace_events, installation, controllers, workspace_progress
    TO codehub_api, codehub_controller;

GRANT INSERT (
    id, owner_user_id, name, description, memo, image_ref, ide, resources, instance_backend, storage_backend,
    home_store_key, desired_state, deleted_at, purge_at, recover_at, recover_accepts_loss, standby_ttl_seconds,
    archive_ttl_seconds, last_access_at, awake_until, revision
), UPDATE (
    id, owner_user_id, name, description, memo, image_ref, ide, resources, instance_backend, storage_backend,
    home_store_key, desired_state, deleted_at, purge_at, recover_at, recover_accepts_loss, standby_ttl_seconds,
    archive_ttl_seconds, last_access_at, awake_until, revision
) ON workspaces TO codehub_api;

-- The controller makes no workspace and deletes none: it only says what it saw.
GRANT UPDATE (
    conditions, observed_at, phase, phase_changed_at, operation, op_started_at, op_id, retry_at, version, archive_key,
    home_ctx, error_info, error_count, restarts, previous_status
) ON workspaces TO codehub_controller;

GRANT INSERT (workspace_id, owner_user_id, kind, before, after, actor, reason, request_id)
    ON workspace_events TO codehub_api, codehub_controller;
GRANT DELETE ON workspace_events TO codehub_controller;

GRANT SELECT, INSERT (id, username, password_hash, role, disabled), UPDATE (username, password_hash, role, disabled)
    ON users TO codehub_api;
GRANT SELECT (id, username) ON users TO codehub_controller;
GRANT SELECT, DELETE, INSERT (id_sha256, user_id, expires_at), UPDATE (last_seen_at, expires_at)
    ON sessions TO codehub_api;
GRANT SELECT, DELETE, INSERT (id, user_id, name, token_sha256, scope, expires_at), UPDATE (last_used_at)
    ON api_tokens TO codehub_api;
GRANT SELECT, DELETE, INSERT (owner_user_id, key, body_sha256, workspace_id) ON idempotency_keys TO codehub_api;

GRANT INSERT, UPDATE, DELETE ON controllers, workspace_progress TO codehub_controller;

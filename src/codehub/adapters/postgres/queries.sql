-- Every statement of the store, each with a name and a purpose. `now` is taken while the statement runs, so it is never
-- older than what the statement sees; comparisons in an index condition use now(), whose value the planner can estimate.

-- name: load_idle
-- What has been unused for longer than its TTL, the longest first. Reads idx_workspaces_idle up to now.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT clock.now AS loaded_at, w.*
FROM clock LEFT JOIN (
    SELECT * FROM workspaces
    WHERE deleted_at IS NULL AND operation = 'NONE' AND phase IN ('RUNNING', 'STANDBY') AND phase = desired_state
        AND idle_deadline(
            phase, last_access_at, phase_changed_at, awake_until, standby_ttl_seconds, archive_ttl_seconds) <= now()
    ORDER BY idle_deadline(
        phase, last_access_at, phase_changed_at, awake_until, standby_ttl_seconds, archive_ttl_seconds), id
    LIMIT :limit
) w ON true;

-- name: load
-- These workspaces, those of them that exist.
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT clock.now AS loaded_at, w.*
FROM clock LEFT JOIN workspaces w ON w.id = ANY (:ids::uuid[]);

-- name: changes
-- Rows written by transactions that the reader's last look could not see. `cursor` is for its next look; '0' reads everything.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, pg_snapshot_xmin(pg_current_snapshot())::text AS cursor
)
SELECT clock.now AS loaded_at, clock.cursor, w.*
FROM clock LEFT JOIN workspaces w ON w.changed_xid >= CAST(:cursor::text AS xid8);

-- name: holds
-- The time, if the row still carries this operation.
SELECT clock_timestamp() FROM workspaces WHERE id = :id AND op_id = :op_id AND operation <> 'NONE';

-- name: lock_pass
-- Lock the rows of a pass that still have the version they were loaded with, in the order of their ids: two passes over the same
-- rows then wait for each other and never deadlock. The lock lets foreign keys of others through.
SELECT w.id
FROM workspaces w JOIN unnest(:ids::uuid[], :versions::bigint[]) AS loaded (id, version) USING (id, version)
ORDER BY w.id
FOR NO KEY UPDATE OF w;

-- name: store_pass
-- Write a pass's statuses, each only over the version it was loaded with and, where it depends on a request, only while that is
-- still the latest; and the history of those that were written, in the order given. Returns who lost, which is mostly nobody.
WITH stored AS (
    UPDATE workspaces w SET version = s.version + 1, {status_assignments}
    FROM unnest(:id::uuid[], {status_arrays}, :revision::integer[], :recover_at::timestamptz[])
        AS s (id, {status_columns}, revision, recover_at)
    WHERE w.id = s.id AND w.version = s.version
        AND (s.revision IS NULL OR (w.revision = s.revision AND w.recover_at IS NOT DISTINCT FROM s.recover_at))
    RETURNING w.id, w.owner_user_id
), recorded AS (
    INSERT INTO workspace_events (workspace_id, owner_user_id, kind, before, after, actor, reason, request_id, facts)
    SELECT stored.id, stored.owner_user_id, e.kind, e.before, e.after, e.actor, e.reason, e.request_id, e.facts
    FROM unnest(
            :workspace_id::uuid[], :kind::text[], :before::text[], :after::text[], :actor::text[], :reason::text[],
            :request_id::text[], :facts::jsonb[]
        ) WITH ORDINALITY AS e (workspace_id, kind, before, after, actor, reason, request_id, facts, place)
    JOIN stored ON stored.id = e.workspace_id
    ORDER BY e.place
)
SELECT asked.id FROM unnest(:id::uuid[]) AS asked (id)
WHERE NOT EXISTS (SELECT FROM stored WHERE stored.id = asked.id);

-- name: record_events
-- Append to the history, in the order given. The owner comes from the workspace, never from the caller.
INSERT INTO workspace_events (workspace_id, owner_user_id, kind, before, after, actor, reason, request_id, facts)
SELECT w.id, w.owner_user_id, e.kind, e.before, e.after, e.actor, e.reason, e.request_id, e.facts
FROM unnest(
        :workspace_id::uuid[], :kind::text[], :before::text[], :after::text[], :actor::text[], :reason::text[],
        :request_id::text[], :facts::jsonb[]
    ) WITH ORDINALITY AS e (workspace_id, kind, before, after, actor, reason, request_id, facts, place)
JOIN workspaces w ON w.id = e.workspace_id
ORDER BY e.place;

-- name: create_workspace
-- The API's columns; the controller's begin with their defaults.
INSERT INTO workspaces (id, {spec_columns}) VALUES (:id, {spec_parameters}) RETURNING *;

-- name: acquaint
-- Finds nothing. A new connection learns by it what is to be known of every table that requests ask for.
SELECT * FROM workspaces w JOIN users u ON u.id = w.owner_user_id
    JOIN sessions s ON s.user_id = u.id JOIN api_tokens t ON t.user_id = u.id JOIN workspace_events e ON e.workspace_id = w.id
    JOIN doors d ON d.session_sha256 = s.id_sha256
WHERE w.id = '00000000-0000-0000-0000-000000000000';

-- name: get
SELECT * FROM workspaces WHERE id = :id;

-- name: lock
-- One row for a ruling. The time is taken outside, after the lock: it is never older than what the ruling sees.
WITH locked AS MATERIALIZED (SELECT * FROM workspaces WHERE id = :id FOR NO KEY UPDATE)
SELECT clock_timestamp() AS loaded_at, locked.* FROM locked;

-- name: lock_owner
-- Whoever counts an owner's running workspaces locks the owner first, then the total, then the row: always in this order.
SELECT u.id FROM users u WHERE u.id = :user_id FOR NO KEY UPDATE;

-- name: lock_owner_of
SELECT u.id FROM users u JOIN workspaces w ON w.owner_user_id = u.id WHERE w.id = :workspace_id FOR NO KEY UPDATE OF u;

-- name: lock_total
-- One lock for the limit on all running workspaces; it goes with the transaction.
SELECT pg_advisory_xact_lock(hashtext('codehub: running workspaces'));

-- name: running_of_owner
-- The owner's workspaces that take a place, but for the one that is asked about.
SELECT id, name, phase FROM workspaces
WHERE owner_user_id = :owner_user_id AND counts_as_running(conditions, phase, operation, desired_state) IS TRUE AND id <> :beside
ORDER BY id;

-- name: running_in_all
SELECT count(*) FROM workspaces
WHERE counts_as_running(conditions, phase, operation, desired_state) IS TRUE AND id <> :beside;

-- name: owned
-- How many an owner has, deleted ones not, beside the one that is asked about.
SELECT count(*) FROM workspaces WHERE owner_user_id = :owner_user_id AND deleted_at IS NULL AND id <> :beside;

-- name: amend
-- Write the API's columns of a row that is locked.
UPDATE workspaces SET {spec_assignments} WHERE id = :id RETURNING *;

-- name: touch
-- Last use, many at once and never back. Locked in the order of their ids, as a pass does.
WITH used AS (
    SELECT w.id, u.at FROM workspaces w JOIN unnest(:ids::uuid[], :times::timestamptz[]) AS u (id, at) USING (id)
    ORDER BY w.id FOR NO KEY UPDATE OF w
)
UPDATE workspaces w SET last_access_at = greatest(w.last_access_at, used.at) FROM used WHERE w.id = used.id;

-- name: history
-- Events of one workspace, newest first, from before `before_seq` on.
SELECT seq, at, workspace_id, kind, before, after, actor, reason, request_id, facts
FROM workspace_events
WHERE workspace_id = :workspace_id AND (:before_seq::bigint IS NULL OR seq < :before_seq)
ORDER BY seq DESC
LIMIT :limit;

-- name: notify
-- Outside any transaction: a NOTIFY inside one takes a lock that all commits share.
SELECT pg_notify(:channel, :payload);

-- name: write_progress
-- How far operations are; the table is not logged, so what a crash takes is only what is said anew a second later.
INSERT INTO workspace_progress (workspace_id, op_id, stage, done_bytes, total_bytes, bytes_per_second, eta_seconds)
SELECT * FROM unnest(:workspace_id::uuid[], :op_id::uuid[], :stage::text[], :done_bytes::bigint[], :total_bytes::bigint[], :bytes_per_second::float8[], :eta_seconds::float8[])
ON CONFLICT (workspace_id) DO UPDATE SET
    op_id = excluded.op_id, stage = excluded.stage, done_bytes = excluded.done_bytes, total_bytes = excluded.total_bytes,
    bytes_per_second = excluded.bytes_per_second, eta_seconds = excluded.eta_seconds, updated_at = clock_timestamp();

-- name: end_progress
DELETE FROM workspace_progress WHERE workspace_id = ANY (:ids::uuid[]);

-- name: progress
-- Only of the operation that the row still carries.
SELECT p.workspace_id, p.stage, p.done_bytes, p.total_bytes, p.bytes_per_second, p.eta_seconds
FROM workspace_progress p JOIN workspaces w ON w.id = p.workspace_id AND w.op_id = p.op_id
WHERE p.workspace_id = ANY (:ids::uuid[]) AND w.operation <> 'NONE';

-- name: write_usage
INSERT INTO workspace_usage (workspace_id, memory_mb, cpu, disk_mb, at)
SELECT u.* FROM unnest(:workspace_id::uuid[], :memory_mb::int[], :cpu::float8[], :disk_mb::int[], :at::timestamptz[]) AS u (id, memory_mb, cpu, disk_mb, at)
    JOIN workspaces w ON w.id = u.id
ON CONFLICT (workspace_id) DO UPDATE SET
    memory_mb = excluded.memory_mb, cpu = excluded.cpu, disk_mb = excluded.disk_mb, at = excluded.at;

-- name: usages
SELECT workspace_id, memory_mb, cpu, disk_mb, at FROM workspace_usage WHERE workspace_id = ANY (:ids::uuid[]);

-- name: write_shortage
INSERT INTO disk_shortage (free_mb, floor_mb) VALUES (:free_mb, :floor_mb)
ON CONFLICT (is_only) DO UPDATE SET free_mb = excluded.free_mb, floor_mb = excluded.floor_mb;

-- name: end_shortage
DELETE FROM disk_shortage;

-- name: shortage
SELECT free_mb, floor_mb FROM disk_shortage;

-- name: forget_history
-- Events past their retention. Readers that are older than that get everything anew.
WITH forgotten AS (DELETE FROM workspace_events WHERE at < clock_timestamp() - :older_than::interval RETURNING 1)
SELECT count(*) FROM forgotten;

-- name: beat
-- This controller lives; who else does? Whoever was not heard of for an hour is forgotten, and so is who was heard of in the future:
-- the clock was set back since, and who lives is heard of again.
WITH mine AS (
    INSERT INTO controllers (id, host, backends, looked_at) VALUES (:id, :host, :backends::text[], :looked_at::timestamptz)
    ON CONFLICT (id) DO UPDATE SET
        heartbeat_at = clock_timestamp(),
        host = excluded.host,
        backends = excluded.backends,
        looked_at = excluded.looked_at
    RETURNING id, host, backends
), gone AS (
    DELETE FROM controllers
    WHERE id <> :id AND (heartbeat_at < clock_timestamp() - interval '1 hour' OR heartbeat_at > clock_timestamp())
)
SELECT id, host, backends FROM mine
UNION ALL
SELECT id, host, backends FROM controllers
WHERE id <> :id AND heartbeat_at BETWEEN clock_timestamp() - :alive::interval AND clock_timestamp();

-- name: leave
DELETE FROM controllers WHERE id = :id;

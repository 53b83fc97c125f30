-- What faces read: pages, streams, counts.

-- name: page_of_owner
-- Which rows, and the transaction that wrote each last: a reader that has a row of that transaction needs no more.
-- Lists begin with what is pinned (core/listing.py).
SELECT id, changed_xid FROM workspaces
WHERE owner_user_id = :owner_user_id AND (list_time(pinned_at), id) < (:pinned_at, :id)
    AND (:phase::text IS NULL OR phase = :phase)
    AND (:search_text::text IS NULL OR name ILIKE :search_text OR description ILIKE :search_text)
    AND CASE WHEN :deleted THEN phase = 'DELETED' AND deleted_at IS NOT NULL AND (purge_at > now()) IS NOT FALSE
        ELSE phase <> 'DELETED' OR deleted_at IS NULL END
ORDER BY list_time(pinned_at) DESC, id DESC
LIMIT :limit;

-- name: page_of_all
SELECT id, changed_xid FROM workspaces
WHERE (list_time(pinned_at), id) < (:pinned_at, :id)
    AND (:phase::text IS NULL OR phase = :phase)
    AND (:search_text::text IS NULL OR name ILIKE :search_text OR description ILIKE :search_text)
    AND CASE WHEN :deleted THEN phase = 'DELETED' AND deleted_at IS NOT NULL AND (purge_at > now()) IS NOT FALSE
        ELSE phase <> 'DELETED' OR deleted_at IS NULL END
ORDER BY list_time(pinned_at) DESC, id DESC
LIMIT :limit;

-- name: stamps
SELECT id, changed_xid FROM workspaces WHERE id = ANY (:ids::uuid[]);

-- name: several
SELECT * FROM workspaces WHERE id = ANY (:ids::uuid[]);

-- name: usernames
SELECT id, username FROM users WHERE id = ANY (:ids::uuid[]);

-- name: count_running
SELECT count(*) FROM workspaces
WHERE owner_user_id = :owner_user_id AND counts_as_running(conditions, phase, operation, desired_state) IS TRUE;

-- name: phases
SELECT phase, count(*) FROM workspaces GROUP BY phase;

-- name: feed
-- Everybody's events. Below the oldest open transaction nothing can be added any more. In ORDER BY a bare `xact` would be the text.
WITH open AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin)
SELECT open.xmin::text, EXISTS (SELECT FROM workspace_events WHERE xact >= open.xmin) AS is_held_back, e.*
FROM open LEFT JOIN LATERAL (
    SELECT seq, h.xact::text AS xact, workspace_id, owner_user_id, kind = 'phase' AND after = 'DELETED' AS is_end
    FROM workspace_events h
    WHERE (h.xact, seq) > (:xact::text::xid8, :seq::bigint) AND h.xact < open.xmin
    ORDER BY h.xact, seq
    LIMIT :limit
) e ON true;

-- name: feed_of_owner
WITH open AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin)
SELECT open.xmin::text, false AS is_held_back, e.*
FROM open LEFT JOIN LATERAL (
    SELECT seq, h.xact::text AS xact, workspace_id, owner_user_id, kind = 'phase' AND after = 'DELETED' AS is_end
    FROM workspace_events h
    WHERE owner_user_id = :owner_user_id AND (h.xact, seq) > (:xact::text::xid8, :seq::bigint) AND h.xact < open.xmin
    ORDER BY h.xact, seq
    LIMIT :limit
) e ON true;

-- name: feed_end
SELECT h.xact::text, seq FROM workspace_events h
WHERE h.xact < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY h.xact DESC, seq DESC
LIMIT 1;

-- name: feed_position
SELECT xact::text, seq FROM workspace_events WHERE seq = :seq;

-- name: all_progress
SELECT w.id, w.owner_user_id, p.stage, p.done_bytes, p.total_bytes, p.bytes_per_second, p.eta_seconds
FROM workspace_progress p JOIN workspaces w ON w.id = p.workspace_id AND w.op_id = p.op_id
WHERE w.operation <> 'NONE';

-- name: sleeping_soon
-- Reads idx_workspaces_idle, as the TTL does, a little further. Those that run are said to be those that don't sleep: from
-- phase = 'RUNNING' the planner would take that the wish is RUNNING and drop the comparison that the index asks for.
SELECT * FROM workspaces
WHERE deleted_at IS NULL AND operation = 'NONE' AND phase IN ('RUNNING', 'STANDBY') AND phase = desired_state
    AND phase <> 'STANDBY'
    AND idle_deadline(
        phase, last_access_at, phase_changed_at, awake_until, standby_ttl_seconds, archive_ttl_seconds) <= now() + :within::interval;

-- name: used_key
SELECT body_sha256, workspace_id FROM idempotency_keys WHERE owner_user_id = :owner_user_id AND key = :key;

-- name: forget_keys
DELETE FROM idempotency_keys WHERE owner_user_id = :owner_user_id AND created_at < now() - interval '1 day';

-- name: note_key
INSERT INTO idempotency_keys (owner_user_id, key, body_sha256, workspace_id) VALUES (:owner_user_id, :key, :body_sha256, :workspace_id);

-- name: members
SELECT id, host, backends, heartbeat_at, looked_at FROM controllers
WHERE heartbeat_at >= clock_timestamp() - :within::interval ORDER BY heartbeat_at DESC;

-- name: now
SELECT clock_timestamp();

-- name: places_in_use
-- Whether any workspace has an archive, and in which kinds of storage a home of any may lie.
SELECT coalesce(bool_or(archive_key IS NOT NULL), false) AS has_archives,
    coalesce(array_agg(DISTINCT storage_backend) FILTER (
        WHERE home_ctx ->> 'volume_id' IS NOT NULL OR (home_ctx ->> 'dirty')::boolean), '{}') AS homes
FROM workspaces;

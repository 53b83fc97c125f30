"""A full table for benchmarks and plans: so many workspaces at rest, of which some are idle."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codehub.adapters.postgres.connect import Executor

_PEOPLE = """
INSERT INTO users (id, username, password_hash, role)
SELECT gen_random_uuid(), 'person-' || n, '$argon2id$', 'member'
FROM generate_series(1, greatest($1 / 100, 1)) n
"""

# Row n is idle for n <= $2, and the rest is at rest: mostly archived, some asleep, some running, a few in
# ERROR, a few in the trash.
_WORKSPACES = """
WITH people AS (SELECT array_agg(id) AS ids FROM users),
words (yes, no) AS (VALUES (
    '{"status": "True", "reason": "Ready", "message": "It was looked at.", "last_transition_time": "@"}',
    '{"status": "False", "reason": "Absent", "message": "It was looked at.", "last_transition_time": "@"}'
)),
kinds AS (
    SELECT n, gen_random_uuid() AS id,
        CASE
            WHEN n <= $2 THEN 'idle'
            WHEN n % 100 < 50 THEN 'archived'
            WHEN n % 100 < 75 THEN 'asleep'
            WHEN n % 100 < 95 THEN 'running'
            WHEN n % 100 < 98 THEN 'error'
            ELSE 'trash'
        END AS kind
    FROM generate_series(1, $1) n
)
INSERT INTO workspaces (
    id, owner_user_id, name, image_ref, ide, resources, instance_backend, storage_backend, home_store_key,
    desired_state, deleted_at, purge_at, last_access_at,
    conditions, phase, phase_changed_at, op_id, archive_key, error_info
)
SELECT
    id, people.ids[1 + n % cardinality(people.ids)], 'workspace-' || n, 'codercom/code-server', 'code-server',
    '{"memory_mb": 2048, "cpus": 2.0, "pids": 1024}', 'local-docker', 'docker-volume', 'ws-' || id || '-home',
    CASE
        WHEN kind IN ('running', 'idle', 'error') THEN 'RUNNING'
        WHEN kind = 'asleep' THEN 'STANDBY'
        WHEN kind = 'archived' THEN 'ARCHIVED'
        ELSE 'PENDING'
    END,
    CASE kind WHEN 'trash' THEN now() - interval '8 days' END,
    CASE kind WHEN 'trash' THEN now() + interval '1 day' END,
    now() - CASE kind WHEN 'idle' THEN interval '1 hour' ELSE interval '1 minute' END,
    replace(
        '{"storage.volume_ready": ' || CASE WHEN kind IN ('running', 'idle', 'asleep') THEN yes ELSE no END
        || ', "storage.archive_ready": ' || CASE WHEN kind IN ('archived', 'trash') THEN yes ELSE no END
        || ', "infra.container_ready": ' || CASE WHEN kind IN ('running', 'idle') THEN yes ELSE no END
        || ', "policy.healthy": ' || CASE kind WHEN 'error' THEN no ELSE yes END || '}',
        '@',
        to_char(timestamp '2026-01-01' + random() * interval '90 days', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    )::jsonb,
    CASE
        WHEN kind = 'asleep' THEN 'STANDBY'
        WHEN kind IN ('running', 'idle') THEN 'RUNNING'
        WHEN kind = 'archived' THEN 'ARCHIVED'
        WHEN kind = 'error' THEN 'ERROR'
        ELSE 'DELETED'
    END,
    now() - interval '1 hour',
    id,
    CASE WHEN kind IN ('archived', 'trash') THEN id || '/' || id || '/home.tar.zst' END,
    CASE kind WHEN 'error' THEN jsonb_build_object(
        'reason', 'Timeout', 'message', 'too slow', 'is_terminal', true, 'operation', 'STARTING',
        'error_count', 1, 'context', '{}'::jsonb,
        'occurred_at',
        to_char((now() - interval '1 day') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) END
FROM kinds, people, words
ORDER BY id
"""


async def fill(connection: "Executor", rows: int, *, idle: int = 0) -> None:
    """Leave exactly `rows` workspaces, `idle` of them idle, and statistics that say so."""
    await connection.execute("TRUNCATE workspaces, workspace_events, users CASCADE")
    await connection.execute(_PEOPLE, rows)
    await connection.execute("SET session_replication_role = replica")  # the owners exist: no look at each
    await connection.execute(_WORKSPACES, rows, idle)
    await connection.execute("RESET session_replication_role")
    await connection.execute("VACUUM ANALYZE workspaces")

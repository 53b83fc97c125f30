-- The workspaces: what people set, what was seen, and the constraints that make contradictions impossible (spec §4).
--
-- Three rules are functions, so that an index and the query that wants it can't disagree. PostgreSQL inlines them in both.
-- A CHECK passes when it is NULL: whatever can be NULL is compared with IS TRUE.

-- timestamptz + interval is only STABLE, because days and months depend on the time zone. Seconds don't: in UTC the sum is IMMUTABLE.
CREATE FUNCTION add_seconds(at timestamptz, seconds integer) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((at AT TIME ZONE 'UTC') + seconds * interval '1 second') AT TIME ZONE 'UTC';

-- Text to timestamptz is only STABLE, because '1/2/2003' depends on DateStyle. RFC 3339 in UTC, which a CHECK demands, doesn't.
CREATE FUNCTION error_time(error_info jsonb) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (error_info ->> 'occurred_at')::timestamptz;

CREATE FUNCTION is_condition(condition jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (condition ->> 'status' IN ('True', 'False', 'Unknown')) IS TRUE
        AND (jsonb_typeof(condition -> 'reason') = 'string') IS TRUE
        AND (jsonb_typeof(condition -> 'message') = 'string') IS TRUE
        AND (jsonb_typeof(condition -> 'last_transition_time') IN ('string', 'null')) IS TRUE;

-- Whether the controller has something to do: the workspace is not where it should be, or a newer request answers its error.
CREATE FUNCTION is_due(
    phase text, operation text, desired_state text, deleted_at timestamptz, recover_at timestamptz, error_info jsonb
) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN operation <> 'NONE'
        OR (deleted_at IS NOT NULL AND phase <> 'DELETED')
        OR (deleted_at IS NULL AND phase = 'DELETED')
        OR (deleted_at IS NULL AND phase NOT IN ('ERROR', 'DELETED') AND phase <> desired_state
            AND NOT (phase = 'ARCHIVED' AND desired_state = 'PENDING'))
        OR (phase = 'ERROR' AND recover_at IS NOT NULL AND recover_at > error_time(error_info));

-- When a workspace that is where it should be has been unused for long enough. NULL: never.
CREATE FUNCTION idle_deadline(
    phase text, last_access_at timestamptz, phase_changed_at timestamptz, awake_until timestamptz,
    standby_ttl_seconds integer, archive_ttl_seconds integer
) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE phase
        WHEN 'RUNNING' THEN add_seconds(greatest(last_access_at, phase_changed_at, awake_until), standby_ttl_seconds)
        WHEN 'STANDBY' THEN add_seconds(greatest(last_access_at, phase_changed_at), archive_ttl_seconds)
    END;

-- Whether it takes one of its owner's places: from the wish RUNNING until its container is gone (core: counts_as_running).
CREATE FUNCTION counts_as_running(conditions jsonb, phase text, operation text, desired_state text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (desired_state = 'RUNNING' AND phase <> 'ERROR')
        OR CASE conditions -> 'infra.container_ready' ->> 'status'
            WHEN 'True' THEN true
            WHEN 'False' THEN conditions -> 'infra.container_ready' ->> 'reason' = 'NotReady'
            ELSE phase IN ('RUNNING', 'ERROR') OR operation = 'STOPPING'
        END;

CREATE TABLE workspaces (
    -- The API's.
    id uuid PRIMARY KEY,
    owner_user_id uuid NOT NULL REFERENCES users,
    name varchar(255) NOT NULL,
    description text,
    memo text,
    image_ref varchar(512) NOT NULL,
    ide varchar(64) NOT NULL,
    resources jsonb NOT NULL,
    instance_backend text NOT NULL,
    storage_backend text NOT NULL,
    home_store_key varchar(512) NOT NULL,
    desired_state text NOT NULL DEFAULT 'RUNNING',
    deleted_at timestamptz,
    purge_at timestamptz,
    recover_at timestamptz,
    recover_accepts_loss boolean NOT NULL DEFAULT false,
    standby_ttl_seconds integer DEFAULT 300,
    archive_ttl_seconds integer DEFAULT 86400,
    last_access_at timestamptz,
    awake_until timestamptz,
    revision integer NOT NULL DEFAULT 1,

    -- The controller's.
    conditions jsonb NOT NULL DEFAULT '{
        "storage.volume_ready": {"status": "False", "reason": "Absent", "message": "Nothing has been made yet.", "last_transition_time": null},
        "storage.archive_ready": {"status": "False", "reason": "Absent", "message": "Nothing has been made yet.", "last_transition_time": null},
        "infra.container_ready": {"status": "False", "reason": "Absent", "message": "Nothing has been made yet.", "last_transition_time": null},
        "policy.healthy": {"status": "True", "reason": "Healthy", "message": "No rule is broken.", "last_transition_time": null}
    }',
    observed_at timestamptz,
    phase text NOT NULL DEFAULT 'PENDING',
    phase_changed_at timestamptz,
    operation text NOT NULL DEFAULT 'NONE',
    op_started_at timestamptz,
    op_id uuid,
    retry_at timestamptz,
    version bigint NOT NULL DEFAULT 0,
    archive_key varchar(512),
    home_ctx jsonb NOT NULL DEFAULT '{"volume_id": null, "restore_marker": null, "dirty": false}',
    error_info jsonb,
    error_count integer NOT NULL DEFAULT 0,
    restarts timestamptz[] NOT NULL DEFAULT '{}',
    previous_status text,

    -- Derived, so that they can't contradict the phase (core: observed_status, health_status).
    observed_status text NOT NULL GENERATED ALWAYS AS (
        CASE phase
            WHEN 'ERROR' THEN
                CASE
                    WHEN conditions -> 'storage.volume_ready' ->> 'status' <> 'True' THEN 'PENDING'
                    WHEN conditions -> 'infra.container_ready' ->> 'status' = 'True' THEN 'RUNNING'
                    ELSE 'STANDBY'
                END
            WHEN 'ARCHIVED' THEN 'PENDING'
            ELSE phase
        END
    ) STORED,
    health_status text NOT NULL GENERATED ALWAYS AS (CASE phase WHEN 'ERROR' THEN 'ERROR' ELSE 'OK' END) STORED,
    error_reason text GENERATED ALWAYS AS (error_info ->> 'reason') STORED,
    error_message text GENERATED ALWAYS AS (error_info ->> 'message') STORED,

    -- The database's.
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT workspaces_name_not_empty CHECK (name <> ''),
    CONSTRAINT workspaces_instance_backend CHECK (instance_backend IN ('local-process', 'local-docker', 'k8s')),
    CONSTRAINT workspaces_storage_backend
        CHECK (storage_backend IN ('local-dir', 'docker-volume', 'k8s-pvc', 'object-store')),
    CONSTRAINT workspaces_desired_state CHECK (desired_state IN ('PENDING', 'ARCHIVED', 'STANDBY', 'RUNNING')),
    CONSTRAINT workspaces_phase
        CHECK (phase IN ('PENDING', 'ARCHIVED', 'STANDBY', 'RUNNING', 'ERROR', 'DELETED')),
    CONSTRAINT workspaces_operation CHECK (operation IN (
        'NONE', 'PROVISIONING', 'CREATE_EMPTY_ARCHIVE', 'RESTORING', 'STARTING', 'STOPPING', 'ARCHIVING', 'DELETING')),
    CONSTRAINT workspaces_previous_status
        CHECK (previous_status IN ('PENDING', 'STANDBY', 'RUNNING', 'DELETED')),
    CONSTRAINT workspaces_standby_ttl CHECK (standby_ttl_seconds >= 10),
    CONSTRAINT workspaces_archive_ttl CHECK (archive_ttl_seconds >= 0),
    CONSTRAINT workspaces_revision CHECK (revision >= 1),
    CONSTRAINT workspaces_version CHECK (version >= 0),
    CONSTRAINT workspaces_error_count CHECK (error_count >= 0),

    CONSTRAINT workspaces_deletion_has_purge_time CHECK ((deleted_at IS NULL) = (purge_at IS NULL)),
    CONSTRAINT workspaces_deletion_wishes_pending CHECK (deleted_at IS NULL OR desired_state = 'PENDING'),
    CONSTRAINT workspaces_operation_is_claimed
        CHECK (operation = 'NONE' OR (op_id IS NOT NULL AND op_started_at IS NOT NULL)),
    CONSTRAINT workspaces_no_operation_no_clock
        CHECK (operation <> 'NONE' OR (op_started_at IS NULL AND retry_at IS NULL)),
    CONSTRAINT workspaces_error_has_no_operation CHECK (phase <> 'ERROR' OR operation = 'NONE'),
    CONSTRAINT workspaces_error_is_terminal
        CHECK ((phase = 'ERROR') = ((error_info ->> 'is_terminal' = 'true') IS TRUE)),
    CONSTRAINT workspaces_archive_key_is_its_own
        CHECK (archive_key LIKE id::text || '/%/home.tar.zst'),

    CONSTRAINT workspaces_resources_shape CHECK (
        (jsonb_typeof(resources -> 'memory_mb') = 'number') IS TRUE
        AND (jsonb_typeof(resources -> 'cpus') = 'number') IS TRUE
        AND (jsonb_typeof(resources -> 'pids') = 'number') IS TRUE),
    CONSTRAINT workspaces_conditions_shape CHECK (
        is_condition(conditions -> 'storage.volume_ready')
        AND is_condition(conditions -> 'storage.archive_ready')
        AND is_condition(conditions -> 'infra.container_ready')
        AND is_condition(conditions -> 'policy.healthy')),
    CONSTRAINT workspaces_home_ctx_shape CHECK (
        (jsonb_typeof(home_ctx -> 'volume_id') IN ('string', 'null')) IS TRUE
        AND (jsonb_typeof(home_ctx -> 'restore_marker') IN ('string', 'null')) IS TRUE
        AND (jsonb_typeof(home_ctx -> 'dirty') = 'boolean') IS TRUE),
    CONSTRAINT workspaces_error_info_shape CHECK (error_info IS NULL OR (
        (error_info ->> 'reason' IN (
            'Timeout', 'RetryExceeded', 'ActionFailed', 'DataLost', 'Unreachable', 'ImagePullFailed',
            'ContainerWithoutVolume', 'ArchiveCorrupted', 'CrashLoop')) IS TRUE
        AND (error_info -> 'is_terminal'
            = to_jsonb(error_info ->> 'reason' NOT IN ('ActionFailed', 'Unreachable'))) IS TRUE
        AND (jsonb_typeof(error_info -> 'message') = 'string') IS TRUE
        AND (error_info ->> 'operation' IN (
            'NONE', 'PROVISIONING', 'CREATE_EMPTY_ARCHIVE', 'RESTORING', 'STARTING', 'STOPPING', 'ARCHIVING',
            'DELETING')) IS TRUE
        AND (jsonb_typeof(error_info -> 'error_count') = 'number') IS TRUE
        AND (jsonb_typeof(error_info -> 'context') = 'object') IS TRUE
        AND (error_info ->> 'occurred_at' ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$') IS TRUE))
);

-- A name is free again when its workspace is deleted, and taken again when that is undone.
CREATE UNIQUE INDEX workspaces_name_unique ON workspaces (owner_user_id, name) WHERE deleted_at IS NULL;
CREATE INDEX workspaces_of_owner ON workspaces (owner_user_id, id);

-- Reconcile targets (load_due). Deletion is among its subjects.
CREATE INDEX workspaces_due ON workspaces (id)
    WHERE is_due(phase, operation, desired_state, deleted_at, recover_at, error_info) IS TRUE;
-- Without it the planner takes the branches of is_due for independent and nine rows in ten for due. IS TRUE lets it look here.
CREATE STATISTICS workspaces_due_share
    ON (is_due(phase, operation, desired_state, deleted_at, recover_at, error_info)) FROM workspaces;
-- Trash with something left to delete, by the end of its time (load_due).
CREATE INDEX workspaces_trash ON workspaces (purge_at)
    WHERE phase = 'DELETED' AND operation = 'NONE' AND archive_key IS NOT NULL;
-- TTL (load_idle).
CREATE INDEX workspaces_idle ON workspaces (idle_deadline(
        phase, last_access_at, phase_changed_at, awake_until, standby_ttl_seconds, archive_ttl_seconds), id)
    WHERE deleted_at IS NULL AND operation = 'NONE' AND phase IN ('RUNNING', 'STANDBY') AND phase = desired_state;
-- Operations under way, the longest first. DELETING is one of them.
CREATE INDEX workspaces_operations ON workspaces (op_started_at) WHERE operation <> 'NONE';
-- Running, per user and in all. One that is being deleted counts until its container is gone.
CREATE INDEX workspaces_running ON workspaces (owner_user_id, id)
    WHERE counts_as_running(conditions, phase, operation, desired_state) IS TRUE;
CREATE STATISTICS workspaces_running_share
    ON (counts_as_running(conditions, phase, operation, desired_state)) FROM workspaces;
CREATE INDEX workspaces_errors ON workspaces (phase_changed_at) WHERE deleted_at IS NULL AND phase = 'ERROR';

CREATE FUNCTION stamp_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := clock_timestamp();
    RETURN NEW;
END
$$;
CREATE TRIGGER workspaces_stamp_update BEFORE UPDATE ON workspaces
    FOR EACH ROW EXECUTE FUNCTION stamp_update();

-- What holds an operation up while no step of it is in flight (spec §2.4), and when a person asked for another try.

ALTER TABLE workspaces ADD COLUMN asked_again_at timestamptz,
    ADD COLUMN held_up jsonb,
    ADD CONSTRAINT workspaces_only_operations_are_held_up CHECK (operation <> 'NONE' OR held_up IS NULL),
    ADD CONSTRAINT workspaces_held_up_shape CHECK (held_up IS NULL OR (
        (jsonb_typeof(held_up -> 'reason') = 'string') IS TRUE
        AND (jsonb_typeof(held_up -> 'message') = 'string') IS TRUE
        AND (jsonb_typeof(held_up -> 'since') = 'string') IS TRUE
        AND (jsonb_typeof(held_up -> 'is_trying') = 'boolean') IS TRUE));
GRANT INSERT (asked_again_at), UPDATE (asked_again_at) ON workspaces TO codehub_api;
GRANT UPDATE (held_up) ON workspaces TO codehub_controller;

-- A start that was given up may have made a container: while nobody can look, it takes its place (core: counts_as_running).
DROP STATISTICS workspaces_running_share;
DROP INDEX workspaces_running;
CREATE OR REPLACE FUNCTION counts_as_running(conditions jsonb, phase text, operation text, desired_state text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (desired_state = 'RUNNING' AND phase <> 'ERROR')
        OR CASE conditions -> 'infra.container_ready' ->> 'status'
            WHEN 'True' THEN true
            WHEN 'False' THEN conditions -> 'infra.container_ready' ->> 'reason' = 'NotReady'
            ELSE phase IN ('RUNNING', 'ERROR') OR operation IN ('STARTING', 'STOPPING')
        END;
CREATE INDEX workspaces_running ON workspaces (owner_user_id, id)
    WHERE counts_as_running(conditions, phase, operation, desired_state) IS TRUE;
CREATE STATISTICS workspaces_running_share
    ON (counts_as_running(conditions, phase, operation, desired_state)) FROM workspaces;

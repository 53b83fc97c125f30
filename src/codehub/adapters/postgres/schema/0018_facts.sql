-- Reasons are codes, with facts where there are some. What is no code is a text, of a backend or from before: it is shown as it is.
-- So it is with `message` in `conditions`, `error_info` and `held_up`, where `facts` stands beside it.

ALTER TABLE workspace_events ADD COLUMN facts jsonb
    CONSTRAINT workspace_events_facts_shape CHECK (jsonb_typeof(facts) = 'object');
GRANT INSERT (facts) ON workspace_events TO codehub_api, codehub_controller;

ALTER TABLE workspaces ALTER COLUMN conditions SET DEFAULT '{
        "storage.volume_ready": {"status": "False", "reason": "Absent", "message": "NothingYet", "last_transition_time": null},
        "storage.archive_ready": {"status": "False", "reason": "Absent", "message": "NothingYet", "last_transition_time": null},
        "infra.container_ready": {"status": "False", "reason": "Absent", "message": "NothingYet", "last_transition_time": null},
        "policy.healthy": {"status": "True", "reason": "Healthy", "message": "Healthy", "last_transition_time": null}
    }';

-- What workspaces use, as it was last measured, and which disk is too full for anything to start. UNLOGGED: after a crash it is measured anew.

CREATE UNLOGGED TABLE workspace_usage (
    workspace_id uuid PRIMARY KEY REFERENCES workspaces,
    memory_mb integer,
    cpu double precision,
    disk_mb integer,
    at timestamptz NOT NULL
);

-- One row at most: the disk that has least.
CREATE UNLOGGED TABLE disk_shortage (
    is_only boolean PRIMARY KEY DEFAULT true CONSTRAINT disk_shortage_is_only CHECK (is_only),
    free_mb integer NOT NULL,
    floor_mb integer NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);

GRANT SELECT ON workspace_usage, disk_shortage TO codehub_api, codehub_controller;
GRANT INSERT, UPDATE, DELETE ON workspace_usage, disk_shortage TO codehub_controller;

-- Which rows changed since a reader's last look, exactly: the transaction that wrote each row last. A reader remembers the oldest
-- transaction that was still open when it looked; whatever is older it has seen, whatever is not it reads (again).

ALTER TABLE workspaces ADD COLUMN changed_xid xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX workspaces_changed ON workspaces (changed_xid);

CREATE OR REPLACE FUNCTION stamp_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := clock_timestamp();
    NEW.changed_xid := pg_current_xact_id();
    RETURN NEW;
END
$$;

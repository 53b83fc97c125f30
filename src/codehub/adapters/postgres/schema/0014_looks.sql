-- When a controller's last pass over all that it handles was begun, of those that ended well: what rests is looked at and not written.

ALTER TABLE controllers ADD COLUMN looked_at timestamptz;

-- Which backends a live controller can reach: a workspace is handled by one that reaches its own.

ALTER TABLE controllers ADD COLUMN backends text[] NOT NULL DEFAULT '{}';

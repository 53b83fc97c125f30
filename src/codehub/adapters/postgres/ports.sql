-- Ports that more than a workspace's owner may enter.

-- name: shared_ports
-- Of these workspaces, those that are shared now.
SELECT workspace_id, port, visibility, expires_at FROM workspace_ports
WHERE workspace_id = ANY (:ids::uuid[]) AND (expires_at IS NULL OR expires_at > clock_timestamp())
ORDER BY workspace_id, port;

-- name: forget_ports
-- This one, and those whose time is over: nobody else looks for them.
DELETE FROM workspace_ports
WHERE workspace_id = :id AND (port = :port OR expires_at <= clock_timestamp());

-- name: share_port
INSERT INTO workspace_ports (workspace_id, port, visibility, expires_at) VALUES (:id, :port, :visibility, :expires_at);

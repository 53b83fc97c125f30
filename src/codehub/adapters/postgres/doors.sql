-- Doors into workspaces' own origins, and the codes that open them. Words come in as hashes only.

-- name: workspace_of_label
SELECT id FROM workspaces WHERE label = :label AND phase <> 'DELETED';

-- name: issue_code
-- The session's row is locked before its codes are touched, as whoever ends the session does, too. Its codes that
-- are over go with it: those of a session that has ended are gone already.
WITH asking AS MATERIALIZED (
    SELECT s.id_sha256 FROM sessions s JOIN users u ON u.id = s.user_id
    WHERE s.id_sha256 = :session_sha256 AND s.expires_at > clock_timestamp() AND NOT u.disabled
    FOR NO KEY UPDATE OF s
), over AS (
    DELETE FROM door_codes c USING asking WHERE c.session_sha256 = asking.id_sha256 AND c.expires_at <= clock_timestamp()
)
INSERT INTO door_codes (code_sha256, session_sha256, workspace_id, port, challenge, path, expires_at)
SELECT :code_sha256, asking.id_sha256, :workspace_id, :port, :challenge, :path, clock_timestamp() + :lasts::interval FROM asking
RETURNING true;

-- name: open_door
-- Of two that show the same code, one waits for the other and then finds none. What is over, ended, disabled or
-- deleted when the session's row is locked opens nothing. The session's oldest doors make room.
WITH asking AS MATERIALIZED (
    SELECT c.code_sha256, s.id_sha256
    FROM door_codes c JOIN sessions s ON s.id_sha256 = c.session_sha256 JOIN users u ON u.id = s.user_id
        JOIN workspaces w ON w.id = c.workspace_id
    WHERE c.code_sha256 = :code_sha256 AND c.challenge = :challenge AND c.workspace_id = :workspace_id
        AND c.port IS NOT DISTINCT FROM :port::integer AND c.expires_at > clock_timestamp()
        AND s.expires_at > clock_timestamp() AND NOT u.disabled AND w.deleted_at IS NULL AND w.phase <> 'DELETED'
    FOR NO KEY UPDATE OF s
), used AS (
    DELETE FROM door_codes c USING asking WHERE c.code_sha256 = asking.code_sha256
    RETURNING c.session_sha256, c.workspace_id, c.port, c.path
), opened AS (
    INSERT INTO doors (door_sha256, session_sha256, workspace_id, port)
    SELECT :door_sha256, session_sha256, workspace_id, port FROM used
), oldest AS (
    DELETE FROM doors WHERE door_sha256 IN (
        SELECT d.door_sha256 FROM doors d JOIN used USING (session_sha256)
        ORDER BY d.opened_at DESC OFFSET :most::integer - 1
    )
)
SELECT path FROM used;

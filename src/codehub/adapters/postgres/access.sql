-- People, sessions, tokens and failed sign-ins. Words come in as hashes only.

-- name: add_user
INSERT INTO users (id, username, password_hash, role) VALUES (:id, :username, :password_hash, :role)
RETURNING id, username, role, disabled, created_at;

-- name: users
SELECT id, username, role, disabled, created_at FROM users ORDER BY lower(username);

-- name: credentials
SELECT id, username, role, disabled, created_at, password_hash FROM users WHERE lower(username) = lower(:username);

-- name: lock_admins
-- Whoever may take the last admin away waits for whoever does so now.
SELECT id FROM users WHERE role = 'admin' AND NOT disabled ORDER BY id FOR NO KEY UPDATE;

-- name: amend_user
UPDATE users SET
    password_hash = coalesce(:password_hash, password_hash), role = coalesce(:role, role), disabled = coalesce(:disabled, disabled)
WHERE id = :id AND (:known_hash::text IS NULL OR password_hash = :known_hash)
RETURNING id, username, role, disabled, created_at;

-- name: end_keys
-- Every session and token of a user but one.
WITH closed AS (DELETE FROM sessions WHERE user_id = :user_id AND id_sha256 IS DISTINCT FROM :keep)
DELETE FROM api_tokens WHERE user_id = :user_id AND token_sha256 IS DISTINCT FROM :keep;

-- name: hold_user
-- Whoever gives them a key waits for whoever ends their keys now, and the reverse.
SELECT password_hash FROM users WHERE id = :id AND NOT disabled FOR SHARE;

-- name: open_session
-- Sessions that are over go with it: nobody else looks for them.
WITH over AS (DELETE FROM sessions WHERE expires_at < now())
INSERT INTO sessions (id_sha256, user_id, expires_at) VALUES (:id_sha256, :user_id, clock_timestamp() + :lasts::interval);

-- name: close_session
DELETE FROM sessions WHERE id_sha256 = :id_sha256;

-- name: session
SELECT u.id, u.username, u.role, u.disabled, u.created_at, s.expires_at, s.last_seen_at < now() - interval '30 seconds' AS is_to_be_noted
FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.id_sha256 = :id_sha256 AND s.expires_at > now() AND NOT u.disabled;

-- name: note_session_use
-- Its end is indexed, and moves once an hour. Of many requests at once one writes.
UPDATE sessions SET last_seen_at = clock_timestamp(), expires_at = CASE
    WHEN expires_at < clock_timestamp() + :lasts::interval - interval '1 hour' THEN clock_timestamp() + :lasts::interval ELSE expires_at END
WHERE id_sha256 = :id_sha256 AND last_seen_at < now() - interval '30 seconds'
RETURNING expires_at;

-- name: people
-- Whom these sessions, tokens and doors belong to, by the hashes they are stored under: those that are valid now,
-- of people who are not disabled. A door is valid as long as its session.
SELECT 'session' AS kind, s.id_sha256 AS sha256, u.id, u.username, 'write' AS scope, NULL::uuid AS workspace_id, NULL::integer AS port
FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.id_sha256 = ANY (:sessions::bytea[]) AND s.expires_at > clock_timestamp() AND NOT u.disabled
UNION ALL
SELECT 'token', t.token_sha256, u.id, u.username, t.scope, NULL, NULL
FROM api_tokens t JOIN users u ON u.id = t.user_id
WHERE t.token_sha256 = ANY (:tokens::bytea[]) AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp()) AND NOT u.disabled
UNION ALL
SELECT 'door', d.door_sha256, u.id, u.username, 'write', d.workspace_id, d.port
FROM doors d JOIN sessions s ON s.id_sha256 = d.session_sha256 JOIN users u ON u.id = s.user_id
WHERE d.door_sha256 = ANY (:doors::bytea[]) AND s.expires_at > clock_timestamp() AND NOT u.disabled;

-- name: note_uses
-- Sessions, by themselves or by their doors, and tokens that are in use through the proxy: what was noted just
-- now is not written again.
WITH prolonged AS (
    UPDATE sessions SET last_seen_at = clock_timestamp(), expires_at = CASE
        WHEN expires_at < clock_timestamp() + :lasts::interval - interval '1 hour' THEN clock_timestamp() + :lasts::interval ELSE expires_at END
    WHERE id_sha256 IN (
        SELECT unnest(:sessions::bytea[]) UNION SELECT session_sha256 FROM doors WHERE door_sha256 = ANY (:doors::bytea[])
    ) AND last_seen_at < now() - interval '30 seconds' AND expires_at > clock_timestamp()
)
UPDATE api_tokens SET last_used_at = clock_timestamp()
WHERE token_sha256 = ANY (:tokens::bytea[]) AND coalesce(last_used_at < now() - interval '30 seconds', true)
  AND coalesce(expires_at > clock_timestamp(), true);

-- name: add_token
INSERT INTO api_tokens (id, user_id, name, token_sha256, scope, expires_at)
VALUES (:id, :user_id, :name, :token_sha256, :scope, clock_timestamp() + :lasts::interval)
RETURNING id, name, scope, created_at, expires_at, last_used_at;

-- name: live_tokens
-- How many a user has that still open something; whoever counts has locked the user.
SELECT count(*) FROM api_tokens WHERE user_id = :user_id AND coalesce(expires_at > clock_timestamp(), true);

-- name: tokens
SELECT id, name, scope, created_at, expires_at, last_used_at FROM api_tokens WHERE user_id = :user_id ORDER BY id;

-- name: delete_token
DELETE FROM api_tokens WHERE id = :id AND user_id = :user_id RETURNING id;

-- name: token
SELECT u.id, u.username, u.role, u.disabled, u.created_at, t.scope, t.expires_at,
    coalesce(t.last_used_at < now() - interval '30 seconds', true) AS is_to_be_noted
FROM api_tokens t JOIN users u ON u.id = t.user_id
WHERE t.token_sha256 = :token_sha256 AND (t.expires_at IS NULL OR t.expires_at > now()) AND NOT u.disabled;

-- name: note_token_use
UPDATE api_tokens SET last_used_at = clock_timestamp()
WHERE token_sha256 = :token_sha256 AND coalesce(last_used_at < now() - interval '30 seconds', true);

-- name: is_key_of
-- Whether a session or a token is of this user, and lives.
SELECT EXISTS (SELECT FROM sessions WHERE id_sha256 = :key_sha256 AND user_id = :user_id AND expires_at > clock_timestamp())
    OR EXISTS (
        SELECT FROM api_tokens
        WHERE token_sha256 = :key_sha256 AND user_id = :user_id AND (expires_at IS NULL OR expires_at > clock_timestamp())
    );

-- name: keys
-- What lets a user in. A session has no id of its own: the hash of what is stored of it stands for it.
SELECT encode(substr(sha256(id_sha256), 1, 16), 'hex')::uuid AS id, 'session' AS kind, NULL AS name, 'write' AS scope,
    created_at, expires_at, last_seen_at AS last_used_at
FROM sessions WHERE user_id = :user_id AND expires_at > now()
UNION ALL
SELECT id, 'token', name, scope, created_at, expires_at, last_used_at
FROM api_tokens WHERE user_id = :user_id AND (expires_at IS NULL OR expires_at > now())
ORDER BY created_at, id;

-- name: is_user
SELECT EXISTS (SELECT FROM users WHERE id = :id);

-- name: users_by_keys
SELECT s.id_sha256 AS sha256, u.id, u.username, u.role, u.disabled, u.created_at
FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.id_sha256 = ANY (:keys::bytea[]) AND s.expires_at > now() AND NOT u.disabled
UNION ALL
SELECT t.token_sha256, u.id, u.username, u.role, u.disabled, u.created_at
FROM api_tokens t JOIN users u ON u.id = t.user_id
WHERE t.token_sha256 = ANY (:keys::bytea[]) AND (t.expires_at IS NULL OR t.expires_at > now()) AND NOT u.disabled;

-- name: device_signing_key
SELECT key, clock_timestamp() AS now FROM device_key;

-- name: lock_try
-- One key's tries wait for each other, also those of a key that has no row yet.
SELECT pg_advisory_xact_lock(:key);

-- name: failures
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT clock.now, f.key_sha256, f.failures, f.last_at
FROM clock LEFT JOIN login_failures f ON f.key_sha256 = ANY (:keys::bytea[]);

-- name: count_failures
INSERT INTO login_failures (key_sha256, failures) SELECT unnest(:keys::bytea[]), unnest(:counts::integer[])
ON CONFLICT (key_sha256) DO UPDATE SET failures = excluded.failures, last_at = clock_timestamp();

-- name: clear_failures
-- And, as nobody else does it, forget what is long over.
DELETE FROM login_failures WHERE key_sha256 = ANY (:keys::bytea[]) OR last_at < now() - interval '1 day';

-- name: uncount_try
WITH gone AS (DELETE FROM login_failures WHERE key_sha256 = ANY (:keys::bytea[]) AND failures = 1)
UPDATE login_failures SET failures = failures - 1 WHERE key_sha256 = ANY (:keys::bytea[]) AND failures > 1;

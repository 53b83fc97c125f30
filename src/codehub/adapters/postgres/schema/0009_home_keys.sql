-- Containers on homes in directories were given a volume's name for a key, and never came up: there is no home by that name.

UPDATE workspaces
SET home_store_key = 'users/' || owner_user_id || '/workspaces/' || id || '/home'
WHERE storage_backend = 'local-dir' AND home_store_key = 'ws-' || id || '-home';

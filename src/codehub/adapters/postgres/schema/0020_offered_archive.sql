-- Which archive a person meant who took the newest: if that one is gone when the choice is carried out, they are asked again.
-- No CHECK ties it to the choice: the release before leaves it as it was when it writes another one.

ALTER TABLE workspaces ADD COLUMN recover_offered_key varchar(512);
GRANT INSERT (recover_offered_key), UPDATE (recover_offered_key) ON workspaces TO codehub_api;

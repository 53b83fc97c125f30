-- What a person chose with a recovery, where there is something to choose from: the newest archive, or the volume that is there.

ALTER TABLE workspaces ADD COLUMN recover_choice text CHECK (recover_choice IN ('newest', 'adopt')),
    ADD CONSTRAINT workspaces_one_choice CHECK (NOT (recover_accepts_loss AND recover_choice IS NOT NULL));
GRANT INSERT (recover_choice), UPDATE (recover_choice) ON workspaces TO codehub_api;

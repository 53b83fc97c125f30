-- What the words of browsers that signed in before are signed with. It is made here, and only the API reads it.

CREATE TABLE device_key (
    is_the_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_the_only_row),
    key bytea NOT NULL CONSTRAINT device_key_length CHECK (octet_length(key) = 32)
);
INSERT INTO device_key (key) VALUES (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));
GRANT SELECT ON device_key TO codehub_api;

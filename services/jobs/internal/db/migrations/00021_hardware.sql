-- +goose Up
-- Every hardware configuration that was ever in force. document has the API's form plus team ids; json, not jsonb,
-- because its text is compared. settled_at is set once every instance has the version and its audit row is written.
CREATE TABLE hardware_config (
    version    bigint      PRIMARY KEY CHECK (version >= 0),
    document   json        NOT NULL,
    actor      json        NOT NULL,
    stored_at  timestamptz NOT NULL,
    settled_at timestamptz
);
INSERT INTO hardware_config (version, document, actor, stored_at, settled_at) VALUES (0, '{"series":[],"profiles":[]}', '{}', now(), now());

-- The single row that names the configuration in force. Storing the next version locks it exclusively; a transaction
-- that relies on the current version until it ends takes a shared lock.
CREATE TABLE hardware_head (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint  NOT NULL REFERENCES hardware_config (version)
);
INSERT INTO hardware_head (version) VALUES (0);

-- The instances that keep a copy, the version each has, and the end of its lease. Until then an instance may serve its
-- copy without checking the database. A change waits for the instances with an older version, or for their leases to end.
CREATE TABLE hardware_replica (
    id      text        PRIMARY KEY,
    version bigint      NOT NULL,
    until   timestamptz NOT NULL
);

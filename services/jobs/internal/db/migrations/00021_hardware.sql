-- +goose Up
-- Every hardware configuration that was ever in force. document has the format of the API plus the ids of teams. It is
-- json, not jsonb, because its text is compared. settled_at is set when every instance has the version and the audit
-- row is written.
CREATE TABLE hardware_config (
    version    bigint      PRIMARY KEY CHECK (version >= 0),
    document   json        NOT NULL,
    actor      json        NOT NULL,
    stored_at  timestamptz NOT NULL,
    settled_at timestamptz
);
INSERT INTO hardware_config (version, document, actor, stored_at, settled_at) VALUES (0, '{"series":[],"profiles":[]}', '{}', now(), now());

-- The only row contains the number of the configuration in force. Storing the next version locks the row exclusively. A
-- transaction that relies on the current version takes a shared lock until its end.
CREATE TABLE hardware_head (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint  NOT NULL REFERENCES hardware_config (version)
);
INSERT INTO hardware_head (version) VALUES (0);

-- The instances that have a copy of the hardware configuration, with the version of the copy and the end of the lease.
-- Until its lease ends, an instance may serve its copy without checking the database. A change waits until every
-- instance with an older version has updated its copy or lost its lease.
CREATE TABLE hardware_replica (
    id      text        PRIMARY KEY,
    version bigint      NOT NULL,
    until   timestamptz NOT NULL
);

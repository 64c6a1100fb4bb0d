-- +goose Up
-- Every hardware configuration that was in force. document is the contract's form with team ids beside it;
-- json, not jsonb, for its text is compared. settled_at: every instance has it and its audit row is written.
CREATE TABLE hardware_config (
    version    bigint      PRIMARY KEY CHECK (version >= 0),
    document   json        NOT NULL,
    actor      json        NOT NULL,
    stored_at  timestamptz NOT NULL,
    settled_at timestamptz
);
INSERT INTO hardware_config (version, document, actor, stored_at, settled_at) VALUES (0, '{"series":[],"profiles":[]}', '{}', now(), now());

-- The one row that says which is in force. Whoever stores the next one locks it; whoever relies on what it
-- says until his transaction ends shares the lock.
CREATE TABLE hardware_head (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint  NOT NULL REFERENCES hardware_config (version)
);
INSERT INTO hardware_head (version) VALUES (0);

-- The instances that keep a copy, which version they have, and until when they may answer from it without
-- asking again: a change waits for those that have an older one, or for the end of their leases.
CREATE TABLE hardware_replica (
    id      text        PRIMARY KEY,
    version bigint      NOT NULL,
    until   timestamptz NOT NULL
);

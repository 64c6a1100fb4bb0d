-- +goose Up
-- One row per sign-in of a device (RFC 8628). Both codes are stored as hashes.
CREATE TABLE device_code (
    id               text PRIMARY KEY,
    hash             bytea NOT NULL CONSTRAINT device_code_hash_key UNIQUE CHECK (length(hash) = 32),
    user_code_hash   bytea NOT NULL CONSTRAINT device_code_user_code_key UNIQUE CHECK (length(user_code_hash) = 32),
    client_id        text NOT NULL,
    client_name      text NOT NULL CHECK (length(client_name) BETWEEN 1 AND 256),
    -- client_address is shown to the user. Polls must come from the address_key: the address, or the /64 network of
    -- an IPv6 address.
    client_address   text NOT NULL,
    address_key      text NOT NULL,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    -- The minimum number of seconds between two polls. Every poll that comes too early increases it.
    interval_seconds int NOT NULL CHECK (interval_seconds > 0),
    polled_at        timestamptz,
    state            text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'approved', 'denied', 'used')),
    -- The user who decided, and the account's epoch at that time. If the epoch has increased since, the approval is
    -- void.
    account_id       text REFERENCES account (id),
    account_epoch    bigint,
    decided_at       timestamptz,
    CHECK ((state = 'pending') = (account_id IS NULL)),
    CHECK ((account_id IS NULL) = (account_epoch IS NULL) AND (account_id IS NULL) = (decided_at IS NULL))
);
CREATE INDEX device_code_expires_idx ON device_code (expires_at);

-- Polls, new device codes and wrong user codes, counted across all replicas.
CREATE TABLE device_attempt (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    purpose text NOT NULL CHECK (purpose IN ('create', 'poll', 'guess_account', 'guess_address')),
    key     text NOT NULL,
    at      timestamptz NOT NULL
);
CREATE INDEX device_attempt_idx ON device_attempt (purpose, key, at);
CREATE INDEX device_attempt_at_idx ON device_attempt (at);

-- +goose Up
-- Public links. targets contains the ids as requested; runs contains the run of each target, in the same order.
CREATE TABLE share (
    id             text        PRIMARY KEY,
    kind           text        NOT NULL CHECK (kind IN ('job', 'comparison')),
    title          text        NOT NULL DEFAULT '',
    owner_id       text        NOT NULL,
    owner_name     text        NOT NULL,
    hash           bytea       NOT NULL CONSTRAINT share_hash UNIQUE CHECK (octet_length(hash) = 32),
    prefix         text        NOT NULL,
    targets        text[]      NOT NULL CHECK (cardinality(targets) BETWEEN 1 AND 20),
    runs           text[]      NOT NULL CHECK (cardinality(runs) = cardinality(targets)),
    fields         text[]      NOT NULL,
    pinned         boolean     NOT NULL,
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz,
    revoked_at     timestamptz,
    views          bigint      NOT NULL DEFAULT 0 CHECK (views >= 0),
    last_viewed_at timestamptz
);
CREATE INDEX share_newest ON share (created_at DESC, id DESC);
CREATE INDEX share_owner ON share (owner_id, created_at DESC, id DESC);

-- The public content of each run of a pinned link. The database does not interpret it. Revoking the link deletes it.
CREATE TABLE share_pin (
    share_id text    NOT NULL REFERENCES share (id) ON DELETE CASCADE,
    run      integer NOT NULL CHECK (run >= 0),
    part     text    NOT NULL CHECK (part IN ('run', 'metrics', 'config', 'samples')),
    data     bytea   NOT NULL,
    PRIMARY KEY (share_id, run, part)
);

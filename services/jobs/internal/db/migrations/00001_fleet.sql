-- +goose Up
CREATE TABLE fleet (
    id         text        PRIMARY KEY,
    name       text        NOT NULL CONSTRAINT fleet_name UNIQUE,
    kind       text        NOT NULL CHECK (kind IN ('agent', 'kubernetes', 'slurm')),
    state      text        NOT NULL CHECK (state IN ('active', 'draining', 'disabled')),
    pools      text[]      NOT NULL CHECK (cardinality(pools) > 0),
    created_at timestamptz NOT NULL
);

CREATE TABLE join_token (
    id         text        PRIMARY KEY,
    fleet_id   text        NOT NULL REFERENCES fleet (id),
    hash       bytea       NOT NULL CONSTRAINT join_token_hash UNIQUE CHECK (octet_length(hash) = 32),
    max_uses   integer     NOT NULL CHECK (max_uses > 0),
    uses       integer     NOT NULL DEFAULT 0 CHECK (uses >= 0 AND uses <= max_uses),
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL
);

-- session increases with every new stream of the node. A stream with an older session can no longer write.
CREATE TABLE node (
    id           text        PRIMARY KEY,
    fleet_id     text        NOT NULL REFERENCES fleet (id),
    name         text        NOT NULL,
    state        text        NOT NULL CHECK (state IN ('joining', 'ready', 'draining', 'unhealthy', 'lost')),
    cpus         integer     NOT NULL CHECK (cpus >= 0),
    memory_bytes bigint      NOT NULL CHECK (memory_bytes >= 0),
    gpus         integer     NOT NULL CHECK (gpus >= 0),
    slots        integer     NOT NULL CHECK (slots > 0),
    limits       text        NOT NULL,
    version      text        NOT NULL,
    drivers      text[]      NOT NULL DEFAULT '{}',
    session      bigint      NOT NULL DEFAULT 0,
    incarnation  text        NOT NULL DEFAULT '',
    joined_at    timestamptz NOT NULL,
    last_seen_at timestamptz,
    lost_at      timestamptz,
    CHECK ((state = 'lost') = (lost_at IS NOT NULL))
);
CREATE INDEX node_fleet ON node (fleet_id);

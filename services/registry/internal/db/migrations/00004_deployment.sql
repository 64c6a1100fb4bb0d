-- +goose Up
CREATE TABLE deployment (
    id                   text        PRIMARY KEY,
    name                 text        NOT NULL,
    owner_id             text        NOT NULL,
    owner_name           text        NOT NULL,
    project_id           text        NOT NULL,
    project              text        NOT NULL,
    visibility           text        NOT NULL,
    state                text        NOT NULL CHECK (state IN ('serving', 'suspended')),
    promoted_revision_id text,
    previous_revision_id text,
    -- Incremented by every promotion.
    route_epoch          bigint      NOT NULL DEFAULT 0,
    next_revision        integer     NOT NULL DEFAULT 1,
    created_at           timestamptz NOT NULL,
    CONSTRAINT deployment_name_key UNIQUE (project_id, name)
);
CREATE INDEX deployment_created_idx ON deployment (created_at, id);

CREATE TABLE revision (
    id              text          PRIMARY KEY,
    deployment_id   text          NOT NULL REFERENCES deployment (id),
    number          integer       NOT NULL,
    state           text          NOT NULL CHECK (state IN
        ('pending', 'preparing', 'starting', 'probing', 'ready', 'not_ready', 'failed', 'stopped')),
    reason          json,
    model_id        text          NOT NULL,
    model_version   integer       NOT NULL,
    serving         json          NOT NULL,
    serving_digest  text          NOT NULL,
    -- The specification of the engine, and the work as which the jobs service runs the engine.
    plan            json          NOT NULL,
    work_id         text          NOT NULL UNIQUE,
    work_generation bigint        NOT NULL DEFAULT 1,
    desired         text          NOT NULL CHECK (desired IN ('running', 'gone')),
    -- The last reported execution. Its API key is encrypted and bound to this row.
    fence           bigint        NOT NULL DEFAULT 0,
    node_id         text          NOT NULL DEFAULT '',
    pid             integer       NOT NULL DEFAULT 0,
    address         text          NOT NULL DEFAULT '',
    api_key         bytea,
    started_at      timestamptz,
    engine_ready_at timestamptz,
    -- The probe results at the time when the revision first became ready. Until then, the most recent results.
    probe_report    json,
    created_at      timestamptz   NOT NULL,
    ready_at        timestamptz,
    promoted_at     timestamptz[] NOT NULL DEFAULT '{}',
    CONSTRAINT revision_number_key UNIQUE (deployment_id, number)
);

CREATE TABLE deployment_token (
    id            text        PRIMARY KEY,
    deployment_id text        NOT NULL REFERENCES deployment (id),
    name          text        NOT NULL,
    prefix        text        NOT NULL,
    hash          bytea       NOT NULL CONSTRAINT deployment_token_hash_key UNIQUE CHECK (length(hash) = 32),
    created_at    timestamptz NOT NULL,
    revoked_at    timestamptz,
    -- The snapshot epoch from which the token is invalid.
    revoked_epoch bigint
);
CREATE INDEX deployment_token_deployment_idx ON deployment_token (deployment_id, created_at, id);

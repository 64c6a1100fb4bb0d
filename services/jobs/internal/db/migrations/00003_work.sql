-- +goose Up
-- Desired and last observed state of the work items of nodes. (id, generation, fence) identifies one execution.
-- Setting released_at frees the capacity that the work item takes on its node.
CREATE TABLE work (
    id           text        PRIMARY KEY,
    kind         text        NOT NULL CHECK (kind IN ('attempt', 'engine')),
    generation   bigint      NOT NULL,
    fence        bigint      NOT NULL,
    desired      text        NOT NULL CHECK (desired IN ('running', 'stopped', 'gone')),
    desired_at   timestamptz NOT NULL,
    spec         bytea       NOT NULL,
    pool         text        NOT NULL,
    gpus         integer     NOT NULL CHECK (gpus >= 0),
    slots        integer     NOT NULL CHECK (slots >= 0),
    job_id       text        NOT NULL DEFAULT '',
    attempt      integer     NOT NULL DEFAULT 0,
    rank         integer     NOT NULL DEFAULT 0,
    nnodes       integer     NOT NULL DEFAULT 1,
    role         text        NOT NULL DEFAULT '',
    master       text        NOT NULL DEFAULT '',
    owner_id     text        NOT NULL,
    project_id   text        NOT NULL,
    driver       text        NOT NULL DEFAULT '',
    node_id      text        NOT NULL DEFAULT '',
    waiting      text        NOT NULL DEFAULT '',

    phase        text        NOT NULL DEFAULT '' CHECK (phase IN
        ('', 'pending', 'preparing', 'running', 'collecting', 'exited', 'gone')),
    detail       text        NOT NULL DEFAULT '',
    preparing_at timestamptz,
    running_at   timestamptz,
    exited_at    timestamptz,
    exit_code    integer,
    exit_signal  integer     NOT NULL DEFAULT 0,
    exit_reason  text        NOT NULL DEFAULT '',
    exit_message text        NOT NULL DEFAULT '',
    -- engine is the engine's report without its key; engine_key is the key, encrypted with the keyring.
    engine       bytea,
    engine_key   bytea,

    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    released_at  timestamptz
);
CREATE INDEX work_node ON work (node_id) WHERE released_at IS NULL;
CREATE INDEX work_job ON work (job_id, attempt) WHERE kind = 'attempt';
CREATE INDEX work_engine ON work (id) WHERE kind = 'engine';

CREATE TABLE ingest_token (
    hash       bytea       PRIMARY KEY CHECK (octet_length(hash) = 32),
    job_id     text        NOT NULL,
    run_id     text        NOT NULL,
    attempt    integer     NOT NULL,
    work_id    text        NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE UNIQUE INDEX ingest_token_live ON ingest_token (work_id) WHERE revoked_at IS NULL;

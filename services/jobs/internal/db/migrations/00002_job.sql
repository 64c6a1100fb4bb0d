-- +goose Up
-- GPUs held per account. The first reservation of an account inserts its row.
CREATE TABLE account (
    user_id   text    PRIMARY KEY,
    gpu_limit integer NOT NULL CHECK (gpu_limit >= 0),
    own_limit boolean NOT NULL DEFAULT false,
    held      integer NOT NULL DEFAULT 0 CHECK (held >= 0),
    CONSTRAINT account_limit CHECK (held <= gpu_limit)
);

CREATE TABLE job (
    id                  text        PRIMARY KEY,
    run_id              text        NOT NULL CONSTRAINT job_run UNIQUE,
    name                text        NOT NULL,
    owner_id            text        NOT NULL,
    owner_name          text        NOT NULL,
    project_id          text        NOT NULL,
    project             text        NOT NULL,
    visibility          text        NOT NULL,
    labels              jsonb       NOT NULL,
    priority            integer     NOT NULL CHECK (priority BETWEEN 0 AND 100),
    -- json, not jsonb: spec_digest is computed from the canonical text, which jsonb would not preserve.
    spec                json        NOT NULL,
    spec_digest         text        NOT NULL,
    -- Serialized AttemptSpec without the fields that are set for each attempt. The database does not interpret it.
    template            bytea       NOT NULL,
    pools               jsonb       NOT NULL,
    gpus                integer     NOT NULL CHECK (gpus >= 0),
    retry_max           integer     NOT NULL,
    running_s           integer     NOT NULL,
    starting_s          integer     NOT NULL,
    queued_s            integer     NOT NULL,
    created_at          timestamptz NOT NULL,

    state               text        NOT NULL CHECK (state IN
        ('queued', 'scheduled', 'starting', 'running', 'stopping', 'succeeded', 'failed', 'stopped')),
    end_reason          text        NOT NULL DEFAULT '',
    message             text        NOT NULL DEFAULT '',
    warnings            text[]      NOT NULL DEFAULT '{}',
    attempt             integer     NOT NULL DEFAULT 0,
    stop_reason         text        NOT NULL DEFAULT '',
    queue_position      integer     NOT NULL DEFAULT 0,
    queue_reason        text        NOT NULL DEFAULT '',
    queue_detail        text        NOT NULL DEFAULT '',
    queued_at           timestamptz NOT NULL,
    not_before          timestamptz,
    scheduled_at        timestamptz,
    starting_at         timestamptz,
    executor_running_at timestamptz,
    running_at          timestamptz,
    ended_at            timestamptz,
    -- Number of the newest event. Events of a job are numbered from 1 without gaps.
    seq                 bigint      NOT NULL,
    CHECK ((state IN ('succeeded', 'failed', 'stopped')) = (ended_at IS NOT NULL)),
    CHECK (ended_at IS NULL OR end_reason <> '')
);
CREATE INDEX job_live ON job (state, priority DESC, queued_at, id) WHERE ended_at IS NULL;
CREATE INDEX job_newest ON job (created_at DESC, id DESC);
CREATE INDEX job_owner ON job (owner_id, created_at DESC, id DESC);
CREATE INDEX job_project ON job (project_id, created_at DESC, id DESC);

-- A run outlives its job, so it copies the columns of the job that are needed afterwards.
CREATE TABLE run (
    id            text        PRIMARY KEY,
    job_id        text,
    name          text        NOT NULL,
    owner_id      text        NOT NULL,
    owner_name    text        NOT NULL,
    project_id    text        NOT NULL,
    project       text        NOT NULL,
    visibility    text        NOT NULL,
    state         text        NOT NULL,
    attempts      integer     NOT NULL DEFAULT 0,
    recipe_lock   json        NOT NULL,
    bindings      json        NOT NULL,
    recipe_digest text        NOT NULL,
    spec_digest   text        NOT NULL,
    end_reason    text        NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL,
    started_at    timestamptz,
    ended_at      timestamptz
);
CREATE INDEX run_newest ON run (created_at DESC, id DESC);

CREATE TABLE attempt (
    id                    text        PRIMARY KEY,
    job_id                text        NOT NULL REFERENCES job (id),
    number                integer     NOT NULL CHECK (number > 0),
    state                 text        NOT NULL,
    node_id               text        NOT NULL DEFAULT '',
    -- GPUs of the account's limit that this attempt holds. Set to 0 once, when they are released.
    held                  integer     NOT NULL DEFAULT 0 CHECK (held >= 0),
    end_reason            text        NOT NULL DEFAULT '',
    message               text        NOT NULL DEFAULT '',
    exit_code             integer,
    phase                 text        NOT NULL DEFAULT '',
    reported_end          text        NOT NULL DEFAULT '' CHECK (reported_end IN ('', 'succeeded', 'failed')),
    reported_message      text        NOT NULL DEFAULT '',
    created_at            timestamptz NOT NULL,
    starting_at           timestamptz,
    reported_starting_at  timestamptz,
    executor_running_at   timestamptz,
    running_at            timestamptz,
    ended_at              timestamptz,
    CONSTRAINT attempt_number UNIQUE (job_id, number)
);

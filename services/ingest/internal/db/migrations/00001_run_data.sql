-- +goose Up
-- Every primary key except that of artifact begins with the run, and no query joins two runs, so a run can be moved to
-- another database. Text from clients that may contain NUL is stored as bytea or as JSON in a column of type text,
-- because text rejects the NUL character and jsonb rejects \u0000.

-- One row per run. Every write of a run's data locks the run's row, so the counters have no gaps.
CREATE TABLE run (
    id         text PRIMARY KEY,
    job_id     text NOT NULL,
    owner_id   text NOT NULL,
    project_id text NOT NULL,
    project    text NOT NULL,
    visibility text NOT NULL,
    -- The newest attempt that has reported. Reports of older attempts are rejected.
    attempt    int NOT NULL DEFAULT 0,
    line_seq   bigint NOT NULL DEFAULT 0,
    batch_seq  bigint NOT NULL DEFAULT 0,
    key_count  int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    -- Set once, when the run is closed. From then on the streams end with eof.
    closed_at  timestamptz,
    state      text,
    ended_at   timestamptz
);
CREATE INDEX run_job_idx ON run (job_id);

-- For each stream and writer, the highest number seq such that all requests from 1 to seq are stored.
CREATE TABLE mark (
    run_id text NOT NULL,
    stream text NOT NULL,
    writer text NOT NULL,
    seq    bigint NOT NULL,
    PRIMARY KEY (run_id, stream, writer)
);
-- The stored requests of a writer whose numbers are greater than the first missing number.
CREATE TABLE ahead (
    run_id text NOT NULL,
    stream text NOT NULL,
    writer text NOT NULL,
    seq    bigint NOT NULL,
    PRIMARY KEY (run_id, stream, writer, seq)
);

CREATE TABLE metric_key (
    run_id text NOT NULL,
    id     int NOT NULL,
    key    bytea NOT NULL,
    PRIMARY KEY (run_id, id)
);
-- One row per request, or several rows if the request is large. data holds the points.
CREATE TABLE metric_batch (
    run_id     text NOT NULL,
    seq        bigint NOT NULL,
    attempt    int NOT NULL,
    rank       int,
    points     int NOT NULL,
    data       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- A row holds the lines with the numbers first_seq to first_seq + lines - 1. In data, each line ends with a newline.
CREATE TABLE log_chunk (
    run_id     text NOT NULL,
    first_seq  bigint NOT NULL,
    lines      int NOT NULL,
    attempt    int NOT NULL,
    rank       int,
    data       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, first_seq)
);
-- The unfinished last line of each writer.
CREATE TABLE log_tail (
    run_id  text NOT NULL,
    writer  text NOT NULL,
    attempt int NOT NULL,
    rank    int,
    data    bytea NOT NULL,
    PRIMARY KEY (run_id, writer)
);

CREATE TABLE hparam (
    run_id     text NOT NULL,
    key        bytea NOT NULL,
    value      text NOT NULL,
    attempt    int NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, key)
);
CREATE TABLE hparam_history (
    run_id      text NOT NULL,
    key         bytea NOT NULL,
    n           bigint GENERATED ALWAYS AS IDENTITY,
    value       text NOT NULL,
    attempt     int NOT NULL,
    updated_at  timestamptz NOT NULL,
    replaced_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, key, n)
);

CREATE TABLE validation_round (
    run_id       text NOT NULL,
    attempt      int NOT NULL,
    step         bigint NOT NULL,
    total_chunks int NOT NULL,
    avg_reward   double precision,
    accuracy     double precision,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (run_id, attempt, step)
);
CREATE TABLE validation_chunk (
    run_id      text NOT NULL,
    attempt     int NOT NULL,
    step        bigint NOT NULL,
    chunk_index int NOT NULL,
    samples     int NOT NULL,
    PRIMARY KEY (run_id, attempt, step, chunk_index)
);
CREATE TABLE sample (
    run_id      text NOT NULL,
    attempt     int NOT NULL,
    step        bigint NOT NULL,
    chunk_index int NOT NULL,
    index       int NOT NULL,
    user_text   text,
    assistant   text,
    env         text,
    reward      double precision,
    extra       text,
    PRIMARY KEY (run_id, attempt, step, chunk_index, index)
);

CREATE TABLE artifact (
    id         text PRIMARY KEY,
    run_id     text NOT NULL,
    attempt    int NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('checkpoint', 'hf_export', 'eval_report', 'merged_model')),
    format     text NOT NULL,
    step       bigint,
    path       text NOT NULL,
    size_bytes bigint NOT NULL,
    -- Null for a path on a host, because the platform has not read the file.
    sha256     text,
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX artifact_once_idx ON artifact (run_id, kind, path, step) NULLS NOT DISTINCT;
CREATE INDEX artifact_run_idx ON artifact (run_id, created_at, id);

-- Reports of the environment and of the nodes. body is the reported JSON after validation.
CREATE TABLE record (
    run_id     text NOT NULL,
    stream     text NOT NULL,
    attempt    int NOT NULL,
    item       text NOT NULL,
    body       text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, stream, attempt, item)
);

-- +goose Down
DROP TABLE record, artifact, sample, validation_chunk, validation_round, hparam_history, hparam, log_tail, log_chunk,
    metric_batch, metric_key, ahead, mark, run;

-- +goose Up
-- Hardware samples of machines. A row of hardware_batch holds all samples of one request.
CREATE TABLE hardware_series (
    run_id text NOT NULL,
    id     int NOT NULL,
    -- Empty if the report contains no node.
    node   text NOT NULL,
    gpu    text NOT NULL,
    key    text NOT NULL,
    PRIMARY KEY (run_id, id),
    UNIQUE (run_id, node, gpu, key)
);
CREATE TABLE hardware_batch (
    run_id     text NOT NULL,
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    attempt    int NOT NULL,
    first_at   timestamptz NOT NULL,
    last_at    timestamptz NOT NULL,
    points     int NOT NULL,
    data       bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- Scores from benchmarks that ran outside the platform.
CREATE TABLE benchmark_score (
    run_id        text NOT NULL,
    id            text NOT NULL,
    attempt       int NOT NULL,
    name          text NOT NULL,
    version       text,
    metric        text NOT NULL,
    value         double precision NOT NULL,
    n             bigint,
    stderr        double precision,
    config_digest text,
    samples_uri   text,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (run_id, id)
);
INSERT INTO benchmark_score (run_id, id, attempt, name, version, metric, value, n, stderr, config_digest, samples_uri, created_at)
    SELECT run_id, item, attempt, body::json ->> 'name', body::json ->> 'version', body::json ->> 'metric',
        (body::json ->> 'value')::double precision, (body::json ->> 'n')::bigint, (body::json ->> 'stderr')::double precision,
        body::json ->> 'config_digest', body::json ->> 'samples_uri', created_at
    FROM record WHERE stream = 'benchmark';
DELETE FROM record WHERE stream = 'benchmark';
CREATE INDEX benchmark_score_run_idx ON benchmark_score (run_id, created_at, id);

-- +goose Down
DROP TABLE benchmark_score, hardware_batch, hardware_series;

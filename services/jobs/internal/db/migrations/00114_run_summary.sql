-- +goose Up
-- What POST /api/runs/search knows of the reports of a run. The jobs service copies it from the ingest service: at
-- intervals while the run has not ended, and a last time when its reports are complete. summary_tried_at is the time of
-- the last try, and summary_final is set when the copy is complete.
ALTER TABLE run
    ADD COLUMN summary_tried_at timestamptz,
    ADD COLUMN summary_final boolean NOT NULL DEFAULT false;

-- position is how much the run had reported to ingest at as_of. The rows are deleted together with the run.
CREATE TABLE run_summary (
    run_id           text        PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
    position         bigint      NOT NULL,
    as_of            timestamptz NOT NULL,
    hparams_left_out integer     NOT NULL,
    metrics_left_out boolean     NOT NULL
);

-- value is JSON in one form per value, so that equal values are equal texts. number is set if the value is a number.
CREATE TABLE run_hparam (
    run_id text NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    key    text NOT NULL CHECK (octet_length(key) <= 256),
    value  text NOT NULL CHECK (octet_length(value) <= 512),
    number double precision,
    PRIMARY KEY (run_id, key)
);
CREATE INDEX run_hparam_number ON run_hparam (key, number, run_id) WHERE number IS NOT NULL;
CREATE INDEX run_hparam_value ON run_hparam (key, value, run_id);

CREATE TABLE run_metric (
    run_id text NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    key    text NOT NULL CHECK (octet_length(key) <= 256),
    last   double precision,
    min    double precision,
    max    double precision,
    PRIMARY KEY (run_id, key)
);
CREATE INDEX run_metric_last ON run_metric (key, last, run_id);
CREATE INDEX run_metric_min ON run_metric (key, min, run_id);
CREATE INDEX run_metric_max ON run_metric (key, max, run_id);

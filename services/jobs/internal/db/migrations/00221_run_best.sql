-- +goose Up
-- goals has, of each metric for which the recipe of the run states it, whether lower or higher values are better: a JSON object of
-- key to 'minimize' or 'maximize'. It is NULL for runs without a recipe and for runs that are older than the column.
ALTER TABLE run ADD COLUMN goals jsonb;

-- The best values of the metrics of runs, of metrics with a goal. The jobs service writes it together with run_metric.
CREATE TABLE run_best (
    run_id text             NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    key    text             NOT NULL CHECK (octet_length(key) <= 256),
    best   double precision NOT NULL,
    PRIMARY KEY (run_id, key)
);
CREATE INDEX run_best_order ON run_best (key, best, run_id);

-- Where the copy of the metrics of a run that has not ended continues: the rows that ingest has summarized, what identifies the series
-- and the hidden points of that summary, and the step of each last value. 0, empty and NULL mean that the copy is made as a whole.
-- copied_at is the time of the last whole copy.
ALTER TABLE run_summary
    ADD COLUMN rows bigint NOT NULL DEFAULT 0,
    ADD COLUMN shown text NOT NULL DEFAULT '',
    ADD COLUMN copied_at timestamptz;
ALTER TABLE run_metric ADD COLUMN last_step bigint;

-- +goose Up
-- The sizes in bytes of what a run has reported and uploaded, as counted for the limits of runs. They only grow. A run
-- that is older than these columns is counted from then on. log_cut: a line of the log states that the rest is missing.
ALTER TABLE run
    ADD COLUMN report_bytes   bigint  NOT NULL DEFAULT 0,
    ADD COLUMN point_bytes    bigint  NOT NULL DEFAULT 0,
    ADD COLUMN log_bytes      bigint  NOT NULL DEFAULT 0,
    ADD COLUMN artifact_bytes bigint  NOT NULL DEFAULT 0,
    ADD COLUMN log_cut        boolean NOT NULL DEFAULT false;
-- The size with which run.artifact_bytes contains the object. Null: it does not.
ALTER TABLE object_hold ADD COLUMN bytes bigint;

-- +goose Down
ALTER TABLE object_hold DROP COLUMN bytes;
ALTER TABLE run DROP COLUMN report_bytes, DROP COLUMN point_bytes, DROP COLUMN log_bytes, DROP COLUMN artifact_bytes, DROP COLUMN log_cut;

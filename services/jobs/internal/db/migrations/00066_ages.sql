-- +goose Up
-- data_expired_at: when ingest began to delete the run's data. data_checked_at: when the data was last due but kept,
-- because a model was registered from the run.
ALTER TABLE run
    ADD COLUMN data_expired_at timestamptz,
    ADD COLUMN data_checked_at timestamptz;

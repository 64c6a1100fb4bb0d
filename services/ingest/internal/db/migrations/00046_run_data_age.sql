-- +goose Up
-- artifact_read_at: when the registry last read an artifact to register a model. expired_at: from when the run's data is
-- deleted. cleared_at: when the deletion was complete.
ALTER TABLE run
    ADD COLUMN artifact_read_at timestamptz,
    ADD COLUMN expired_at       timestamptz,
    ADD COLUMN cleared_at       timestamptz;

-- +goose Down
ALTER TABLE run DROP COLUMN artifact_read_at, DROP COLUMN expired_at, DROP COLUMN cleared_at;

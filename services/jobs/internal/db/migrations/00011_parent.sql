-- +goose Up
-- What a run came from: [{kind, run_id, step}].
ALTER TABLE run ADD COLUMN parents jsonb NOT NULL DEFAULT '[]';
CREATE INDEX job_labels ON job USING gin (labels);

-- +goose Up
-- parents: the runs that this run was derived from, as [{kind, run_id, step}].
ALTER TABLE run ADD COLUMN parents jsonb NOT NULL DEFAULT '[]';
CREATE INDEX job_labels ON job USING gin (labels);

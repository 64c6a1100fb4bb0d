-- +goose NO TRANSACTION
-- +goose Up
-- One index for each filter of GET /api/jobs. Those of columns are in the order of the list. The index of labels has the
-- default operators, which find a label by its name too; jsonb_path_ops finds only pairs.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_state ON job (state, created_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_owner_name ON job (owner_name, created_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_project_key ON job (project, created_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_labels ON job USING gin (labels);

-- +goose NO TRANSACTION
-- +goose Up
-- What refers to a run that is to be deleted.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_parents ON run USING gin (parents jsonb_path_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS share_runs ON share USING gin (runs);

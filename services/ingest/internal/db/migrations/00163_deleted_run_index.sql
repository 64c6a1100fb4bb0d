-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_deleted_idx ON run (deleted_at) WHERE deleted_at IS NOT NULL;

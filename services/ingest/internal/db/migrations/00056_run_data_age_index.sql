-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_expired_idx ON run (expired_at) WHERE expired_at IS NOT NULL AND cleared_at IS NULL;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS run_expired_idx;

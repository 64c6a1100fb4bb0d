-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY IF NOT EXISTS metric_key_name_idx ON metric_key (run_id, key, rank);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS metric_key_name_idx;

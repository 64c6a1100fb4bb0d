-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY IF NOT EXISTS metric_block_key_idx ON metric_block (run_id, key, first_seq);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS metric_block_key_idx;

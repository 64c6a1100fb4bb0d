-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY IF NOT EXISTS request_digest_created_idx ON request_digest (created_at);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS request_digest_created_idx;

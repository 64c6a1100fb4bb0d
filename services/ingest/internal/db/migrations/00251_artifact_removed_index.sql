-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY IF NOT EXISTS artifact_removed_idx ON artifact (removed_at, id) WHERE removed_at IS NOT NULL AND freed_at IS NULL;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS artifact_removed_idx;

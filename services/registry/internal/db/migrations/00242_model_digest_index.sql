-- +goose NO TRANSACTION
-- +goose Up
-- Bytes that were rejected under one name may be valid under another one, so only ready versions exclude each other.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS model_version_ready_digest_key ON model_version (model_id, digest) WHERE status <> 'rejected';
CREATE INDEX CONCURRENTLY IF NOT EXISTS model_version_digest_idx ON model_version (model_id, digest);

-- +goose NO TRANSACTION
-- +goose Up
-- The scheduler reads the first waiting jobs of each account, and the end of the next backoff.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_waiting ON job (owner_id, priority DESC, created_at, id) WHERE state = 'queued';
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_backoff ON job (not_before) WHERE state = 'queued' AND not_before IS NOT NULL;

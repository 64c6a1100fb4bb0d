-- +goose NO TRANSACTION
-- +goose Up
-- The retention worker finds rows by their age.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_ended ON job (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_data_age ON run (ended_at) WHERE ended_at IS NOT NULL AND data_expired_at IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_live ON run (id) WHERE ended_at IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS work_attempt_released ON work (released_at) WHERE kind = 'attempt' AND released_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS work_engine_gone ON work (updated_at) WHERE kind = 'engine' AND phase = 'gone' AND released_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS ingest_token_expires ON ingest_token (expires_at);
CREATE INDEX CONCURRENTLY IF NOT EXISTS join_token_ends ON join_token ((least(expires_at, revoked_at)));
CREATE INDEX CONCURRENTLY IF NOT EXISTS share_ends ON share ((least(expires_at, revoked_at)));

-- +goose NO TRANSACTION
-- +goose Up
-- The unfinished runs without a job: counted by owner, and searched for silent ones.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_outside ON run (owner_id) WHERE silence_s IS NOT NULL AND ended_at IS NULL;

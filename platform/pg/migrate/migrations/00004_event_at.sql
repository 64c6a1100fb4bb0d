-- +goose NO TRANSACTION
-- +goose Up
-- For the deletion of old events.
CREATE INDEX CONCURRENTLY IF NOT EXISTS event_at ON event (at);

-- +goose Up
-- When the unfinished line last changed. NULL in rows that an earlier version wrote.
ALTER TABLE log_tail ADD COLUMN updated_at timestamptz;

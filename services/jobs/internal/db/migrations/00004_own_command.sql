-- +goose Up
-- A command of the user's own need not report: its executor's running mark begins the time it may run.
ALTER TABLE job ADD COLUMN own_command boolean NOT NULL DEFAULT false;

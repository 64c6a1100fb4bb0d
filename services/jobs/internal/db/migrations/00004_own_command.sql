-- +goose Up
-- A user-supplied command need not report its state. Its running limit starts with the executor's running mark.
ALTER TABLE job ADD COLUMN own_command boolean NOT NULL DEFAULT false;

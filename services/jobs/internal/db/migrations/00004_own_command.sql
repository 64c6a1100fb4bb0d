-- +goose Up
-- A user's own command may never report its state. Its running limit is then measured from the time at which the
-- executor started it.
ALTER TABLE job ADD COLUMN own_command boolean NOT NULL DEFAULT false;

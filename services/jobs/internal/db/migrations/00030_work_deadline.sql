-- +goose Up
-- deadline: when the engine must end at the latest. Its node enforces this by the node's own clock.
ALTER TABLE work ADD COLUMN deadline timestamptz;

-- +goose Up
-- Until when an engine may run; its node keeps to it by its own clock.
ALTER TABLE work ADD COLUMN deadline timestamptz;

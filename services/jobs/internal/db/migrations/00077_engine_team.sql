-- +goose Up
-- The team of an engine's project when the engine was first ordered, empty if it had none. The GPUs of the engine count
-- against the team's quota too. NULL for an engine that was ordered before this column: its next order sets it. NULL for attempts.
ALTER TABLE work ADD COLUMN team_id text;

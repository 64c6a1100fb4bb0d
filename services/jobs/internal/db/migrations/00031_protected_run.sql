-- +goose Up
-- A run that reads a protected dataset, as it was when the run was admitted: protection is never lifted.
ALTER TABLE run ADD COLUMN protected boolean NOT NULL DEFAULT false;

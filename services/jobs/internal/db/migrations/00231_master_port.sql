-- +goose Up
-- The port at which rank 0 of the attempt listens.
ALTER TABLE work ADD COLUMN master_port integer NOT NULL DEFAULT 29500;

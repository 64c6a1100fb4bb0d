-- +goose Up
-- Whether the job runs without a network, only on nodes that can close it.
ALTER TABLE job ADD COLUMN no_network boolean NOT NULL DEFAULT false;

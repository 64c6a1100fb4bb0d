-- +goose Up
-- protected: a dataset that the run reads was protected when the run was admitted. Protection is never lifted.
ALTER TABLE run ADD COLUMN protected boolean NOT NULL DEFAULT false;

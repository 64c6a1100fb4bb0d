-- +goose Up
-- lease_hash: the SHA-256 of the token with which an attempt's node renews its lease. renewed_at: its
-- grant or last renewal.
ALTER TABLE work ADD COLUMN lease_hash bytea, ADD COLUMN renewed_at timestamptz;

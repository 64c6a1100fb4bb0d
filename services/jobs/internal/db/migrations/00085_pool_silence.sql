-- +goose Up
-- What attempts of the pool do that cannot renew their lease: continue, or stop before they are given up. The table has at
-- most one row for each pool.
ALTER TABLE pool ADD COLUMN on_silence text NOT NULL DEFAULT 'continue';
ALTER TABLE pool ADD CONSTRAINT pool_on_silence CHECK (on_silence IN ('continue', 'stop')) NOT VALID;

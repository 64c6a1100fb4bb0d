-- +goose Up
-- The memory of jobs that request none, in GB; 0 for no default. The table has at most one row for each pool.
ALTER TABLE pool ADD COLUMN default_memory_gb integer NOT NULL DEFAULT 0;

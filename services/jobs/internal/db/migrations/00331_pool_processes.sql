-- +goose Up
-- The number of processes and threads of jobs on each node; 0 for the usual number. The table has at most one row for each pool.
ALTER TABLE pool ADD COLUMN default_processes integer NOT NULL DEFAULT 0;

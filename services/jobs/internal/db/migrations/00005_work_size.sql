-- +goose Up
-- The CPUs and the memory of its node that an attempt asked for, taken until released_at. What was placed
-- before this column counts as nothing until it ends.
ALTER TABLE work
    ADD COLUMN cpus         integer NOT NULL DEFAULT 0 CHECK (cpus >= 0),
    ADD COLUMN memory_bytes bigint  NOT NULL DEFAULT 0 CHECK (memory_bytes >= 0);

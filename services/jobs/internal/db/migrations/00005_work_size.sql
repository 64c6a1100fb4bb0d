-- +goose Up
-- CPUs and memory that an attempt requested, taken from its node until released_at. Work placed before this
-- migration counts as 0 until it ends.
ALTER TABLE work
    ADD COLUMN cpus         integer NOT NULL DEFAULT 0 CHECK (cpus >= 0),
    ADD COLUMN memory_bytes bigint  NOT NULL DEFAULT 0 CHECK (memory_bytes >= 0);

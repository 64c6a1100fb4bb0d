-- +goose Up
-- The environments that a node offers, NULL until it reports them, and the one that a job needs: `requirements`, or
-- `node:` and the name of an interpreter; empty if any node will do.
ALTER TABLE node ADD COLUMN runtimes text[];
ALTER TABLE job ADD COLUMN runtime text NOT NULL DEFAULT '';

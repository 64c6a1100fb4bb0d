-- +goose Up
-- withheld: a protected run registered the artifact. Lists show neither its location nor its digest.
ALTER TABLE artifact ADD COLUMN withheld boolean NOT NULL DEFAULT false;

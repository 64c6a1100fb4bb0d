-- +goose Up
-- Tar files with the small files of a committed version, and the files that are in none of them. Both are null if the
-- version has no packs.
ALTER TABLE dataset_version ADD COLUMN packs jsonb, ADD COLUMN alone json;

-- A sweep of unused objects sees the packs that a version begins to refer to.
CREATE TRIGGER refer_to_packs BEFORE UPDATE OF packs ON dataset_version EXECUTE FUNCTION refer_to_objects();

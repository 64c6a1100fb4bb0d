-- +goose Up
-- squawk-ignore ban-drop-constraint
ALTER TABLE model_version DROP CONSTRAINT model_version_digest_key; -- The index of the migration before replaces it.

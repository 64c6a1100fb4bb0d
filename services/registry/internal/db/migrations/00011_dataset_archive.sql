-- +goose Up
-- New bindings cannot use archived versions. The name of an archived version cannot be used again.
ALTER TABLE dataset_version DROP CONSTRAINT dataset_version_state_check,
    ADD CONSTRAINT dataset_version_state_check CHECK (state IN ('uploading', 'ready', 'invalid', 'archived')),
    ADD COLUMN archived_at timestamptz,
    -- The JSON Schema of the rows, null if unknown.
    ADD COLUMN row_schema json,
    ADD COLUMN schema_source text NOT NULL DEFAULT 'none' CHECK (schema_source IN ('declared', 'inferred', 'none')),
    ADD COLUMN sampled_rows integer NOT NULL DEFAULT 0;

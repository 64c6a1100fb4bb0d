-- +goose Up
-- A version that is archived is found by no new binding; its name stays taken.
ALTER TABLE dataset_version DROP CONSTRAINT dataset_version_state_check,
    ADD CONSTRAINT dataset_version_state_check CHECK (state IN ('uploading', 'ready', 'invalid', 'archived')),
    ADD COLUMN archived_at timestamptz,
    -- What the rows look like, as a JSON Schema; null where nothing is known.
    ADD COLUMN row_schema json,
    ADD COLUMN schema_source text NOT NULL DEFAULT 'none' CHECK (schema_source IN ('declared', 'inferred', 'none')),
    ADD COLUMN sampled_rows integer NOT NULL DEFAULT 0;

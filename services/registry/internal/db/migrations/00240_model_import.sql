-- +goose Up
-- Versions whose files were uploaded have no run. Their files are a list as in the manifest of a dataset, and uri is the
-- prefix of their objects. Base is the reference of the version that an adapter belongs to.
ALTER TABLE model_version
    ADD COLUMN files  json    NOT NULL DEFAULT '[]',
    ADD COLUMN base   text,
    ADD COLUMN pickle boolean NOT NULL DEFAULT false;
-- squawk-ignore ban-drop-constraint
ALTER TABLE model_version DROP CONSTRAINT model_version_format_check; -- The next statement adds a wider one.
ALTER TABLE model_version ADD CONSTRAINT model_version_format_check CHECK (format IN ('gguf', 'safetensors', 'peft')) NOT VALID;

-- A sweep of unused objects sees the files that a version refers to.
CREATE TRIGGER refer_to_objects BEFORE INSERT ON model_version EXECUTE FUNCTION refer_to_objects();

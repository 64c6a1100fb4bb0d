-- +goose Up
-- The bytes of what was protected when they were asked for lie where no other dataset's are looked for.
ALTER TABLE dataset_version ADD COLUMN apart boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE dataset_version DROP COLUMN apart;

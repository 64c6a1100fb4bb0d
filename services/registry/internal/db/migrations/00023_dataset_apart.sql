-- +goose Up
-- Whether the bytes are stored under keys of this dataset alone, because it was protected when the upload began.
ALTER TABLE dataset_version ADD COLUMN apart boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE dataset_version DROP COLUMN apart;

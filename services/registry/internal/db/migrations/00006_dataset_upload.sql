-- +goose Up
-- When the upload URLs of a version expire. An abandoned upload reserves its name no longer than that. The default gives
-- the full lifetime to uploads already in progress and to rows written by a binary that does not know this column.
ALTER TABLE dataset_version ADD COLUMN upload_until timestamptz NOT NULL DEFAULT now() + interval '15 minutes';

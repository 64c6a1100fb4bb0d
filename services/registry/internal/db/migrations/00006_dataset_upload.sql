-- +goose Up
-- Until when the addresses of a version's upload work. An upload that is left behind holds its name no
-- longer than that. Those that run now get the whole span, and so does what a program without this column
-- still writes.
ALTER TABLE dataset_version ADD COLUMN upload_until timestamptz NOT NULL DEFAULT now() + interval '15 minutes';

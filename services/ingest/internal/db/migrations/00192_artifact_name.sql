-- +goose Up
-- name: the path of an output as the client gave it when it requested the upload URL. The keys of objects have only ASCII
-- characters and no folders. It is null in rows of earlier versions, and for a path on a host.
ALTER TABLE object_hold ADD COLUMN name text;
ALTER TABLE artifact ADD COLUMN name text;

-- +goose Down
ALTER TABLE artifact DROP COLUMN name;
ALTER TABLE object_hold DROP COLUMN name;

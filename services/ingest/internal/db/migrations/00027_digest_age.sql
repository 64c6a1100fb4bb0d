-- +goose Up
-- When a digest was stored; digests are deleted at an age. now() is evaluated once, so the existing digests get the time
-- of this migration without being rewritten.
ALTER TABLE request_digest ADD COLUMN created_at timestamptz NOT NULL DEFAULT now();

-- +goose Down
ALTER TABLE request_digest DROP COLUMN created_at;

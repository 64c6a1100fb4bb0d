-- +goose Up
-- node: the machine from which the lines were sent. It is null if the report did not state it.
ALTER TABLE log_chunk ADD COLUMN node text;
ALTER TABLE log_tail ADD COLUMN node text;

-- +goose Down
ALTER TABLE log_tail DROP COLUMN node;
ALTER TABLE log_chunk DROP COLUMN node;

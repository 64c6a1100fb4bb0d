-- +goose Up
-- The step of the checkpoint in resumed_from. Null: it has none, or the attempt is older than this column.
ALTER TABLE attempt ADD COLUMN resumed_step bigint;

-- +goose Down
ALTER TABLE attempt DROP COLUMN resumed_step;

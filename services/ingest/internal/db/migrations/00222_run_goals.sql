-- +goose Up
-- A copy of what the jobs service knows: of each metric for which the recipe of the run states it, whether lower or higher values
-- are better. It is NULL for runs without a recipe and for runs that are older than the column.
ALTER TABLE run ADD COLUMN goals jsonb;

-- +goose Down
ALTER TABLE run DROP COLUMN goals;

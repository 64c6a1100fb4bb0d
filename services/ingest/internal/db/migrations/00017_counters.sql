-- +goose Up
-- The numbers of a run's scores and rollouts, so that a report need not count the rows. Null in a run that is older than
-- these columns: the next report with a score or a rollout counts the rows once. Adding the columns without a default
-- and setting the default of new rows afterwards changes no existing row, so the table is locked only for a moment.
ALTER TABLE run ADD COLUMN score_count int, ADD COLUMN rollout_count int;
ALTER TABLE run ALTER COLUMN score_count SET DEFAULT 0, ALTER COLUMN rollout_count SET DEFAULT 0;

-- +goose Down
ALTER TABLE run DROP COLUMN score_count, DROP COLUMN rollout_count;

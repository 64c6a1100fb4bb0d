-- +goose Up
-- best is min or max, whichever the goals of the run select; NULL without a goal. The table run_best had these values: the previous
-- version still writes it, this one does not, and the next one drops it.
ALTER TABLE run_metric ADD COLUMN best double precision;

-- The metrics of runs with goals are copied once more, as a whole.
-- migration-lint: only runs that are newer than 00221 have goals.
UPDATE run_summary SET position = 0, shown = '' FROM run WHERE run.id = run_summary.run_id AND run.goals IS NOT NULL AND run.data_expired_at IS NULL;
-- migration-lint: only runs that are newer than 00221 have goals.
UPDATE run SET summary_final = false WHERE goals IS NOT NULL AND data_expired_at IS NULL AND summary_final;

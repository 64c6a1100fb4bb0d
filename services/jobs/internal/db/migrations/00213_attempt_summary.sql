-- +goose Up
-- Ingest has changed which points of older attempts readers see. The copies of ended runs with several attempts are made
-- once more, as a whole.
-- migration-lint: few runs have several attempts, and the service writes the rows of ended runs rarely.
UPDATE run_summary SET position = 0 FROM run WHERE run.id = run_summary.run_id AND run.attempts > 1 AND run.data_expired_at IS NULL;
-- migration-lint: few runs have several attempts, and the service writes the rows of ended runs rarely.
UPDATE run SET summary_final = false WHERE attempts > 1 AND data_expired_at IS NULL AND summary_final;

-- +goose Up
-- sealed_at: when the jobs service last began to delete the run; no model can be registered from it soon afterwards.
-- deleted_at: when the jobs service deleted the run. The row is deleted after the run's data.
ALTER TABLE run
    ADD COLUMN sealed_at  timestamptz,
    ADD COLUMN deleted_at timestamptz;

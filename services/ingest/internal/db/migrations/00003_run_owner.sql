-- +goose Up
-- Whose the run was before it was given away. What jobs answered before that moment may come in after it.
ALTER TABLE run ADD COLUMN former_owner_id text;
CREATE INDEX run_owner_idx ON run (owner_id);

-- +goose Down
ALTER TABLE run DROP COLUMN former_owner_id;
DROP INDEX run_owner_idx;

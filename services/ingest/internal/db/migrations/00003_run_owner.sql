-- +goose Up
-- The owner before the last transfer of the run. It prevents a response that jobs sent before the transfer, and that
-- arrives later, from restoring that owner.
ALTER TABLE run ADD COLUMN former_owner_id text;
CREATE INDEX run_owner_idx ON run (owner_id);

-- +goose Down
ALTER TABLE run DROP COLUMN former_owner_id;
DROP INDEX run_owner_idx;

-- +goose Up
-- The owner before the last transfer of the run. A response that jobs produced before the transfer may arrive after it.
ALTER TABLE run ADD COLUMN former_owner_id text;
CREATE INDEX run_owner_idx ON run (owner_id);

-- +goose Down
ALTER TABLE run DROP COLUMN former_owner_id;
DROP INDEX run_owner_idx;

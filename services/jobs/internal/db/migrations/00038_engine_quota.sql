-- +goose NO TRANSACTION
-- +goose Up
-- The GPUs of an owner's engines count against the owner's quota.
CREATE INDEX CONCURRENTLY work_engine_owner_idx ON work (owner_id)
    WHERE kind = 'engine' AND node_id <> '' AND released_at IS NULL AND gpus > 0;

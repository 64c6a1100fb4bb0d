-- +goose Up
-- When a replica returned its lease or was found dead. Changes no longer wait for it, and it never gets a lease again.
-- The row is kept for some time, so that a renewal already in flight is refused.
ALTER TABLE inference_replica ADD COLUMN released_at timestamptz;

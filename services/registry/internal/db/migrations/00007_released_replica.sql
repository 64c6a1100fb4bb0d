-- +goose Up
-- When a replica gave its lease back, or was known to be dead: nobody waits for it, and it is granted no
-- lease again. The row stays until it is swept, so that a renewal that was under way comes too late.
ALTER TABLE inference_replica ADD COLUMN released_at timestamptz;

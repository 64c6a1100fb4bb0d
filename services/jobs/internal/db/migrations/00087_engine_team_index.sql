-- +goose NO TRANSACTION
-- +goose Up
-- The GPUs of the engines of a team's projects count against the team's quota.
CREATE INDEX CONCURRENTLY IF NOT EXISTS work_engine_team_idx ON work (team_id)
    WHERE kind = 'engine' AND node_id <> '' AND released_at IS NULL AND gpus > 0;
-- A transfer moves the engines of a user in steps.
CREATE INDEX CONCURRENTLY IF NOT EXISTS work_engine_all_owner_idx ON work (owner_id, id) WHERE kind = 'engine';

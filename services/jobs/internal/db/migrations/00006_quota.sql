-- +goose Up
-- One row a holder: a user or a team; no two have the same id. set_limit is what an admin gave, null where the
-- installation's default counts; gpu_limit is that or, where more was held when it was last looked at, as much.
ALTER TABLE account
    ADD COLUMN kind      text NOT NULL DEFAULT 'user' CHECK (kind IN ('user', 'team')),
    ADD COLUMN set_limit integer CHECK (set_limit >= 0),
    ADD COLUMN set_by    text NOT NULL DEFAULT '',
    ADD COLUMN set_at    timestamptz;
UPDATE account SET set_limit = gpu_limit WHERE own_limit;

-- The team of the job's project when it was admitted, empty where it has none.
ALTER TABLE job ADD COLUMN team_id text NOT NULL DEFAULT '';
CREATE INDEX job_team_queued ON job (team_id) WHERE state = 'queued' AND team_id <> '';

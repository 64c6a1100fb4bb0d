-- +goose Up
-- One row per holder, a user or a team; ids are unique across both. set_limit is the limit that an admin set, null
-- if the installation's default applies. gpu_limit is that limit or, if more was held at the last check, the amount held.
ALTER TABLE account
    ADD COLUMN kind      text NOT NULL DEFAULT 'user' CHECK (kind IN ('user', 'team')),
    ADD COLUMN set_limit integer CHECK (set_limit >= 0),
    ADD COLUMN set_by    text NOT NULL DEFAULT '',
    ADD COLUMN set_at    timestamptz;
UPDATE account SET set_limit = gpu_limit WHERE own_limit;

-- The team of the job's project at admission; empty if it had none.
ALTER TABLE job ADD COLUMN team_id text NOT NULL DEFAULT '';
CREATE INDEX job_team_queued ON job (team_id) WHERE state = 'queued' AND team_id <> '';

-- +goose Up
-- The columns of runs without a job; NULL or empty in the run of a job. silence_s: the run fails after this many seconds
-- without a request that has its token. heard_at: when such a request was last noticed. reported: the lifecycle event
-- that was reported last.
ALTER TABLE run
    ADD COLUMN silence_s integer,
    ADD COLUMN heard_at timestamptz,
    ADD COLUMN reported text NOT NULL DEFAULT '';

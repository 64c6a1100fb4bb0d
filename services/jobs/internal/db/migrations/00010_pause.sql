-- +goose Up
-- Jobs that are being paused, and paused ones. What a training is asked meanwhile is the signal; checkpoint is
-- the newest registered one that training can go on from. retries counts attempts that followed an end by the
-- infrastructure: one that follows a pause takes nothing from the tries.
ALTER TABLE job DROP CONSTRAINT job_state_check;
ALTER TABLE job ADD CONSTRAINT job_state_check CHECK (state IN
    ('queued', 'scheduled', 'starting', 'running', 'pausing', 'paused', 'stopping', 'succeeded', 'failed', 'stopped'));
ALTER TABLE job
    ADD COLUMN retries            integer NOT NULL DEFAULT 0 CHECK (retries >= 0),
    ADD COLUMN retry_on           text[]  NOT NULL DEFAULT '{infra,preempted}',
    ADD COLUMN retry_codes        integer[] NOT NULL DEFAULT '{}',
    ADD COLUMN retry_backoff_s    integer NOT NULL DEFAULT 1 CHECK (retry_backoff_s > 0),
    ADD COLUMN retry_resume       text    NOT NULL DEFAULT 'latest' CHECK (retry_resume IN ('latest', 'none')),
    ADD COLUMN resumable          boolean NOT NULL DEFAULT false,
    ADD COLUMN checkpoint_grace_s integer NOT NULL DEFAULT 300 CHECK (checkpoint_grace_s > 0),
    ADD COLUMN checkpoint_needed  boolean NOT NULL DEFAULT true,
    ADD COLUMN checkpoint         jsonb,
    ADD COLUMN signal_id          text    NOT NULL DEFAULT '',
    ADD COLUMN signal_deadline    timestamptz,
    ADD COLUMN signal_acked_at    timestamptz,
    ADD COLUMN paused_at          timestamptz,
    ADD CONSTRAINT job_paused CHECK ((state = 'paused') = (paused_at IS NOT NULL));
UPDATE job SET retries = greatest(attempt - 1, 0) WHERE ended_at IS NULL;
CREATE INDEX job_signalled ON job (run_id) WHERE state IN ('pausing', 'stopping');

-- Since when the attempt's training asks for signals, and the artifact that it began from.
ALTER TABLE attempt
    ADD COLUMN listens_at   timestamptz,
    ADD COLUMN resumed_from text NOT NULL DEFAULT '';

-- The processes are to be killed at once.
ALTER TABLE work ADD COLUMN force boolean NOT NULL DEFAULT false;

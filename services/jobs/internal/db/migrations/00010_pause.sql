-- +goose Up
-- Jobs that are being paused, and paused jobs. The signal columns describe the signal that is pending for the training
-- process. checkpoint is the newest registered checkpoint from which training can resume. retries is the number of
-- attempts that followed a failed attempt; an attempt after a pause is not a retry.
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

-- listens_at: when the attempt's training began to poll for signals. resumed_from: the artifact that it started from.
ALTER TABLE attempt
    ADD COLUMN listens_at   timestamptz,
    ADD COLUMN resumed_from text NOT NULL DEFAULT '';

-- force: the node must kill the processes immediately.
ALTER TABLE work ADD COLUMN force boolean NOT NULL DEFAULT false;

-- +goose Up
-- Attempts from which a drain has requested a checkpoint. Once the job is paused it is resumed on another node. An
-- attempt that cannot save a checkpoint is asked only once. A row is obsolete once its job has a newer attempt.
CREATE TABLE drain_pause (
    job_id   text        NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    attempt  integer     NOT NULL,
    asked_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, attempt)
);

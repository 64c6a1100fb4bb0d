-- +goose Up
-- Attempts that a drain has asked for a checkpoint: once their job is paused it goes on elsewhere, and who could not
-- save one is asked once. A row means nothing any more once its job has another attempt.
CREATE TABLE drain_pause (
    job_id   text        NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    attempt  integer     NOT NULL,
    asked_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, attempt)
);

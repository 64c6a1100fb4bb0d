-- +goose Up
-- Suspension, deletion, and rollbacks that wait for their revision to start.
ALTER TABLE deployment
    ADD COLUMN description         text        NOT NULL DEFAULT '',
    -- Incremented by every change, for If-Match.
    ADD COLUMN row_version         bigint      NOT NULL DEFAULT 1,
    -- The revision that is promoted when it becomes ready.
    ADD COLUMN pending_revision_id text,
    ADD COLUMN suspend_mode        text        CHECK (suspend_mode IN ('drain', 'cut')),
    ADD COLUMN suspended_at        timestamptz,
    -- The row of a deleted deployment is kept because events and traffic refer to it. Its name can be used again.
    ADD COLUMN deleted_at          timestamptz;
CREATE INDEX deployment_pending_idx ON deployment (pending_revision_id) WHERE pending_revision_id IS NOT NULL;
ALTER TABLE deployment DROP CONSTRAINT deployment_name_key;
CREATE UNIQUE INDEX deployment_name_key ON deployment (project_id, name) WHERE deleted_at IS NULL;

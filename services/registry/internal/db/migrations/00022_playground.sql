-- +goose Up
-- Sessions in which users try out models. Their engines are revisions that belong to a session instead of a deployment.
CREATE TABLE playground_session (
    id               text        PRIMARY KEY,
    title            text        NOT NULL,
    owner_id         text        NOT NULL,
    owner_name       text        NOT NULL,
    project_id       text        NOT NULL,
    project          text        NOT NULL,
    visibility       text        NOT NULL,
    -- The state shown for a live session is derived from its engines.
    state            text        NOT NULL CHECK (state IN ('live', 'expired', 'stopped', 'failed')),
    reason           text        NOT NULL DEFAULT '',
    idle_timeout_s   integer     NOT NULL CHECK (idle_timeout_s > 0),
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    last_activity_at timestamptz NOT NULL,
    ended_at         timestamptz CHECK ((ended_at IS NULL) = (state = 'live')),
    visibility_version bigint    NOT NULL DEFAULT 0
);
CREATE INDEX playground_session_created_idx ON playground_session (created_at, id);
CREATE INDEX playground_session_live_idx ON playground_session (owner_id) WHERE state = 'live';
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON playground_session
    FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

ALTER TABLE revision DROP CONSTRAINT revision_deployment_id_fkey;
-- When the engine must end. The executor enforces this by its own clock.
ALTER TABLE revision ADD COLUMN deadline timestamptz;

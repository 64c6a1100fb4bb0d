-- +goose Up
-- Counts the changes of the project's visibility. Other services store the visibility in their rows and ignore an
-- older version than the one they have.
ALTER TABLE project ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;

-- A row means that the service has not confirmed the project's newest visibility yet.
CREATE TABLE project_visibility_change (
    project_id text NOT NULL REFERENCES project (id),
    service    text NOT NULL,
    version    bigint NOT NULL,
    tried_at   timestamptz,
    PRIMARY KEY (project_id, service)
);
CREATE INDEX project_visibility_change_service_idx ON project_visibility_change (service, tried_at NULLS FIRST, project_id);

-- Earlier changes did not update existing rows of other services. Send the visibility of every project to every
-- service once.
UPDATE project SET visibility_version = 1;
INSERT INTO project_visibility_change (project_id, service, version)
SELECT p.id, s, 1 FROM project p, unnest(ARRAY['jobs', 'ingest', 'registry']) AS s;

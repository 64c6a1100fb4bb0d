-- +goose Up
-- Counts the changes of visibility: the rows of other services repeat it and keep the newest.
ALTER TABLE project ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;

-- What a service has not confirmed yet.
CREATE TABLE project_visibility_change (
    project_id text NOT NULL REFERENCES project (id),
    service    text NOT NULL,
    version    bigint NOT NULL,
    tried_at   timestamptz,
    PRIMARY KEY (project_id, service)
);
CREATE INDEX project_visibility_change_service_idx ON project_visibility_change (service, tried_at NULLS FIRST, project_id);

-- Changes that were made before this left what was there as it was: every project is brought everywhere once.
UPDATE project SET visibility_version = 1;
INSERT INTO project_visibility_change (project_id, service, version)
SELECT p.id, s, 1 FROM project p, unnest(ARRAY['jobs', 'ingest', 'registry']) AS s;

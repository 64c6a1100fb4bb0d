-- +goose Up
-- The visibility of a project, as auth last reported it: who besides its members may read its data. New rows of run
-- copy the visibility from here. A project whose visibility never changed has no row.
CREATE TABLE project_visibility (
    project_id text PRIMARY KEY,
    visibility text NOT NULL CHECK (visibility IN ('team', 'all')),
    version    bigint NOT NULL CHECK (version > 0)
);

-- Ingest may resolve a run before a change of the visibility and insert its row after the change. The trigger then sets
-- the newest visibility. The trigger and a change take the same lock, the change exclusively. A change therefore sees
-- every row whose trigger ran before the change (platform/access).
-- +goose StatementBegin
CREATE FUNCTION follow_project_visibility() RETURNS trigger
LANGUAGE plpgsql SET search_path = ingest, pg_temp AS $$
DECLARE
    newest project_visibility;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('ingest project visibility ' || NEW.project_id, 0));
    SELECT * INTO newest FROM project_visibility WHERE project_id = NEW.project_id AND version > NEW.visibility_version;
    IF FOUND THEN
        NEW.visibility := newest.visibility;
        NEW.visibility_version := newest.version;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

ALTER TABLE run ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON run FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();
CREATE INDEX run_project_idx ON run (project_id);

-- +goose Down
DROP INDEX run_project_idx;
DROP TRIGGER follow_project_visibility ON run;
ALTER TABLE run DROP COLUMN visibility_version;
DROP FUNCTION follow_project_visibility;
DROP TABLE project_visibility;

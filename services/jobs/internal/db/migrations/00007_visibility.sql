-- +goose Up
-- The visibility of each project as last received from auth: who besides its members may read its resources. It
-- applies to rows inserted from then on. Projects whose visibility never changed have no row.
CREATE TABLE project_visibility (
    project_id text PRIMARY KEY,
    visibility text NOT NULL CHECK (visibility IN ('team', 'all')),
    version    bigint NOT NULL CHECK (version > 0)
);

-- A row may be resolved before a visibility change and inserted after it; the trigger gives it the newest
-- visibility. The change itself takes this lock exclusively, so it sees every row inserted before
-- (platform/access).
-- +goose StatementBegin
CREATE FUNCTION follow_project_visibility() RETURNS trigger
LANGUAGE plpgsql SET search_path = jobs, pg_temp AS $$
DECLARE
    newest project_visibility;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('jobs project visibility ' || NEW.project_id, 0));
    SELECT * INTO newest FROM project_visibility WHERE project_id = NEW.project_id AND version > NEW.visibility_version;
    IF FOUND THEN
        NEW.visibility := newest.visibility;
        NEW.visibility_version := newest.version;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

ALTER TABLE job ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON job FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

ALTER TABLE run ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON run FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();
CREATE INDEX run_project ON run (project_id);

-- +goose Up
CREATE TABLE job (id text PRIMARY KEY, project_id text NOT NULL, visibility text NOT NULL);
CREATE TABLE run (id text PRIMARY KEY, project_id text NOT NULL, visibility text NOT NULL);

-- The visibility of each project, as auth last reported it: who besides the members may read the project's rows. New
-- rows copy it. A project whose visibility never changed has no row.
CREATE TABLE project_visibility (
    project_id text PRIMARY KEY,
    visibility text NOT NULL CHECK (visibility IN ('team', 'all')),
    version    bigint NOT NULL CHECK (version > 0)
);

-- The project may have changed since it was read for this row, so the row gets the newest visibility. A change takes
-- the same lock in exclusive mode and then sees each row that was inserted before (platform/access).
-- +goose StatementBegin
CREATE FUNCTION follow_project_visibility() RETURNS trigger
LANGUAGE plpgsql SET search_path = things, pg_temp AS $$
DECLARE
    newest project_visibility;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('things project visibility ' || NEW.project_id, 0));
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

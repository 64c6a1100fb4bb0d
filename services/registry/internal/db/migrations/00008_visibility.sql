-- +goose Up
-- The visibility of each project as last reported by auth; it applies to rows inserted from then on. Projects whose
-- visibility never changed have no row.
CREATE TABLE project_visibility (
    project_id text PRIMARY KEY,
    visibility text NOT NULL CHECK (visibility IN ('team', 'all')),
    version    bigint NOT NULL CHECK (version > 0)
);

-- If a project's visibility changes between the lookup for a new row and the insert of the row, the row gets the newest
-- visibility. A change takes the trigger's lock exclusively and so sees every row inserted before (platform/access).
-- +goose StatementBegin
CREATE FUNCTION follow_project_visibility() RETURNS trigger
LANGUAGE plpgsql SET search_path = registry, pg_temp AS $$
DECLARE
    newest project_visibility;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('registry project visibility ' || NEW.project_id, 0));
    SELECT * INTO newest FROM project_visibility WHERE project_id = NEW.project_id AND version > NEW.visibility_version;
    IF FOUND THEN
        NEW.visibility := newest.visibility;
        NEW.visibility_version := newest.version;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

ALTER TABLE dataset ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON dataset FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

ALTER TABLE model ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON model FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

ALTER TABLE deployment ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON deployment FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

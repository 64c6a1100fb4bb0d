-- +goose Up
-- Recipes that a project has published. The versions that come with the installation have no project and no owner, and
-- everyone can see them.
ALTER TABLE recipe ADD COLUMN owner_id text NOT NULL DEFAULT '';
ALTER TABLE recipe ADD COLUMN owner_name text NOT NULL DEFAULT '';
ALTER TABLE recipe ADD COLUMN project_id text NOT NULL DEFAULT '';
ALTER TABLE recipe ADD COLUMN project text NOT NULL DEFAULT '';
ALTER TABLE recipe ADD COLUMN visibility text NOT NULL DEFAULT 'all';
ALTER TABLE recipe ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;
-- What events, audit entries and transfers call a version.
ALTER TABLE recipe ADD COLUMN id text NOT NULL GENERATED ALWAYS AS (name || '@' || version) STORED;
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON recipe FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

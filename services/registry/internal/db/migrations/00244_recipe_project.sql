-- +goose Up
-- Recipes that a project has published. The versions that come with the installation have no project and no owner, and
-- everyone can see them.
ALTER TABLE recipe ADD COLUMN owner_id text NOT NULL DEFAULT '';
ALTER TABLE recipe ADD COLUMN owner_name text NOT NULL DEFAULT '';
ALTER TABLE recipe ADD COLUMN project_id text NOT NULL DEFAULT '';
ALTER TABLE recipe ADD COLUMN project text NOT NULL DEFAULT '';
ALTER TABLE recipe ADD COLUMN visibility text NOT NULL DEFAULT 'all';
ALTER TABLE recipe ADD COLUMN visibility_version bigint NOT NULL DEFAULT 0;
-- <name>@<version> of what a project has published, for the statements that change the owners and visibility of all kinds.
ALTER TABLE recipe ADD COLUMN id text NOT NULL DEFAULT '';
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON recipe FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

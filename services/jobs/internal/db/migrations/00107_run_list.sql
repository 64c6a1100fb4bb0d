-- +goose NO TRANSACTION
-- +goose Up
-- One index for each filter and each order of GET /api/runs. Those of columns are in the default order of the list.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_shown ON run (created_at DESC, id DESC) WHERE archived_at IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_archived ON run (created_at DESC, id DESC) WHERE archived_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_protected ON run (created_at DESC, id DESC) WHERE protected;
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_state ON run (state, created_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_owner_name ON run (owner_name, created_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_project_key ON run (project, created_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_project_newest ON run (project_id, created_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_recipe ON run ((recipe_lock ->> 'name'), created_at DESC, id DESC);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_name_part ON run USING gin (lower(name) public.gin_trgm_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_tags ON run USING gin (tags);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_labels ON run USING gin (labels);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_name_order ON run (lower(name), id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_ended_order ON run (coalesce(ended_at, 'infinity'::timestamptz) DESC, id DESC);
-- A run is also found by the id of its job.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_job ON run (job_id);
-- The runs whose labels were not copied yet.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_unlabelled ON run (id) WHERE labels IS NULL;
-- The runs whose tags GET /api/projects/{project_id}/tags counts.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_tagged ON run (project_id, created_at DESC, id DESC) INCLUDE (tags) WHERE tags <> '{}';

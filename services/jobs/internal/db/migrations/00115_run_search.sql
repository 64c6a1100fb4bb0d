-- +goose NO TRANSACTION
-- +goose Up
-- The runs whose copy of their reports is not complete.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_unsummarized ON run (id) WHERE NOT summary_final AND data_expired_at IS NULL;
-- The orders of POST /api/runs/search that GET /api/runs does not have.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_started_order ON run (coalesce(started_at, 'infinity'::timestamptz), id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_owner_order ON run (owner_name, id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_project_order ON run (project, id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_state_order ON run (state, id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_recipe_order ON run (coalesce(recipe_lock ->> 'name', ''), id);

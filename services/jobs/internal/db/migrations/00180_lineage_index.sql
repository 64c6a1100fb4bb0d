-- +goose NO TRANSACTION
-- +goose Up
-- The runs that were made from a run, a dataset version or a model version.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_parents ON run USING gin (parents jsonb_path_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_datasets ON run USING gin (jsonb_path_query_array(bindings::jsonb, '$.datasets.*') jsonb_path_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_model ON run ((bindings ->> 'model'), created_at DESC, id DESC);

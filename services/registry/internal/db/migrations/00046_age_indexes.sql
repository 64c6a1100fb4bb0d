-- +goose NO TRANSACTION
-- +goose Up
-- The retention worker finds rows by their age, and jobs finds the runs of registered models.
CREATE INDEX CONCURRENTLY IF NOT EXISTS model_version_run_idx ON model_version (run_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS dataset_version_uploading_idx ON dataset_version (upload_until) WHERE state = 'uploading';
CREATE INDEX CONCURRENTLY IF NOT EXISTS environment_version_uploading_idx ON environment_version (created_at) WHERE state = 'uploading';
CREATE INDEX CONCURRENTLY IF NOT EXISTS package_unused_idx ON package (created_at) WHERE state <> 'accepted';
CREATE INDEX CONCURRENTLY IF NOT EXISTS deployment_deleted_idx ON deployment (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS environment_deleted_idx ON environment (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS model_deleted_idx ON model (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS deployment_token_revoked_idx ON deployment_token (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS playground_session_ended_idx ON playground_session (ended_at) WHERE ended_at IS NOT NULL;

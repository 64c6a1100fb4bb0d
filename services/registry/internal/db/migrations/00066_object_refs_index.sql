-- +goose NO TRANSACTION
-- +goose Up
-- The sweep of unused objects finds the versions that refer to an object.
CREATE INDEX CONCURRENTLY IF NOT EXISTS dataset_version_digests_idx ON dataset_version USING gin (registry.manifest_digests(manifest));
CREATE INDEX CONCURRENTLY IF NOT EXISTS environment_version_taskset_idx ON environment_version (taskset_sha256);
CREATE INDEX CONCURRENTLY IF NOT EXISTS environment_version_package_idx ON environment_version (package_sha256) WHERE package_sha256 <> '';

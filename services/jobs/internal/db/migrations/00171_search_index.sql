-- +goose NO TRANSACTION
-- +goose Up
-- The names in which GET /api/search finds a part, and the same name. The indexes job_name and run_name_part, for similar
-- names, and run_name_order exist already.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_name_pairs ON job USING gin (name_pairs(lower(name)));
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_name_lower ON job (lower(name));
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_name_pairs ON run USING gin (name_pairs(lower(name)));

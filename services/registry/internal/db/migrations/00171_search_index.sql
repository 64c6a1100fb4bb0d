-- +goose NO TRANSACTION
-- +goose Up
-- The names in which GET /api/search finds a part, a similar name, and the same name.
-- +goose StatementBegin
DO $$
BEGIN
    IF to_regtype('public.gtrgm') IS NULL THEN
        RAISE EXCEPTION 'the database has no extension pg_trgm in schema public; run signalbox-setup database again';
    END IF;
END
$$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS dataset_name_pairs ON dataset USING gin (name_pairs(lower(name)));
CREATE INDEX CONCURRENTLY IF NOT EXISTS dataset_name_trigrams ON dataset USING gin (lower(name) public.gin_trgm_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS dataset_name_lower ON dataset (lower(name));
CREATE INDEX CONCURRENTLY IF NOT EXISTS model_name_pairs ON model USING gin (name_pairs(lower(name)));
CREATE INDEX CONCURRENTLY IF NOT EXISTS model_name_trigrams ON model USING gin (lower(name) public.gin_trgm_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS model_name_lower ON model (lower(name));
CREATE INDEX CONCURRENTLY IF NOT EXISTS deployment_name_pairs ON deployment USING gin (name_pairs(lower(name)));
CREATE INDEX CONCURRENTLY IF NOT EXISTS deployment_name_trigrams ON deployment USING gin (lower(name) public.gin_trgm_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS deployment_name_lower ON deployment (lower(name));
CREATE INDEX CONCURRENTLY IF NOT EXISTS rubric_name_pairs ON rubric USING gin (name_pairs(lower(name)));
CREATE INDEX CONCURRENTLY IF NOT EXISTS rubric_name_trigrams ON rubric USING gin (lower(name) public.gin_trgm_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS rubric_name_lower ON rubric (lower(name));
CREATE INDEX CONCURRENTLY IF NOT EXISTS environment_name_pairs ON environment USING gin (name_pairs(lower(name)));
CREATE INDEX CONCURRENTLY IF NOT EXISTS environment_name_trigrams ON environment USING gin (lower(name) public.gin_trgm_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS environment_name_lower ON environment (lower(name));
-- The words of the descriptions.
CREATE INDEX CONCURRENTLY IF NOT EXISTS dataset_words ON dataset USING gin (to_tsvector('simple', description));
CREATE INDEX CONCURRENTLY IF NOT EXISTS model_words ON model USING gin (to_tsvector('simple', description));
CREATE INDEX CONCURRENTLY IF NOT EXISTS deployment_words ON deployment USING gin (to_tsvector('simple', description));
CREATE INDEX CONCURRENTLY IF NOT EXISTS rubric_words ON rubric USING gin (to_tsvector('simple', description));
CREATE INDEX CONCURRENTLY IF NOT EXISTS environment_words ON environment USING gin (to_tsvector('simple', description));

-- +goose NO TRANSACTION
-- +goose Up
-- The names in which GET /api/search finds a part and a similar name.
-- +goose StatementBegin
DO $$
BEGIN
    IF to_regtype('public.gtrgm') IS NULL THEN
        RAISE EXCEPTION 'the database has no extension pg_trgm in schema public; run signalbox-setup database again';
    END IF;
END
$$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS project_name_pairs ON project USING gin (name_pairs(lower(key || ' ' || name)));
CREATE INDEX CONCURRENTLY IF NOT EXISTS project_name_trigrams ON project USING gin (lower(key || ' ' || name) public.gin_trgm_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS team_name_pairs ON team USING gin (name_pairs(lower(key || ' ' || name)));
CREATE INDEX CONCURRENTLY IF NOT EXISTS team_name_trigrams ON team USING gin (lower(key || ' ' || name) public.gin_trgm_ops);
CREATE INDEX CONCURRENTLY IF NOT EXISTS account_name_pairs ON account USING gin (name_pairs(lower(username || ' ' || coalesce(display_name, ''))));
CREATE INDEX CONCURRENTLY IF NOT EXISTS account_name_trigrams ON account USING gin (lower(username || ' ' || coalesce(display_name, '')) public.gin_trgm_ops);
-- The words of the descriptions.
CREATE INDEX CONCURRENTLY IF NOT EXISTS project_words ON project USING gin (to_tsvector('simple', description));

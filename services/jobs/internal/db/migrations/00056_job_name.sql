-- +goose NO TRANSACTION
-- +goose Up
-- The text filter of GET /api/jobs finds a part of a name. Only an admin of the database can create the extension.
-- +goose StatementBegin
DO $$
BEGIN
    IF to_regtype('public.gtrgm') IS NULL THEN
        RAISE EXCEPTION 'the database has no extension pg_trgm in schema public; run signalbox-setup database again';
    END IF;
END
$$;
-- +goose StatementEnd
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_name ON job USING gin (lower(name) public.gin_trgm_ops);

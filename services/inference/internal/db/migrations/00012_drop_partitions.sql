-- +goose Up
-- Drops the partitions of the days that end at or before the given time, the oldest first and at most the given number.
-- Dropping needs a short lock on the whole table: if it is not free within two seconds, the caller tries again later.
-- +goose StatementBegin
CREATE FUNCTION drop_call_partitions(before timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = inference, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    dropped integer := 0;
    name text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('call partitions', 0));
    FOR name IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'inference.call'::regclass AND c.relname ~ '^call_[0-9]{8}$'
            AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= before
        ORDER BY c.relname LIMIT most
    LOOP
        EXECUTE format('DROP TABLE inference.%I', name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;
-- +goose StatementEnd

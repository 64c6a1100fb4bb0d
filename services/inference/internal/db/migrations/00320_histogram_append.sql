-- +goose Up
-- Adds two histograms. Every batch of calls adds to some rollups, and adding up the pairs of each bucket takes most of the
-- time. So the result has the pairs of both, which readers add up, and has one pair for each bucket only if it would
-- otherwise have more than 200. The service adds its calls to the rollups itself, and the trigger those that replicas of an
-- earlier version insert.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION add_call_histograms(a integer[], b integer[]) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    pairs integer[] := a || b;
BEGIN
    IF array_length(pairs, 1) <= 200 THEN
        RETURN pairs;
    END IF;
    RETURN (
        SELECT array_agg(ARRAY[bucket, n] ORDER BY bucket) FROM (
            SELECT bucket, sum(n)::integer AS n FROM unnest(pairs[:][1:1], pairs[:][2:2]) AS pair (bucket, n) GROUP BY bucket
        ) AS added
    );
END $$;
-- +goose StatementEnd

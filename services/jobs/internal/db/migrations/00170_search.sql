-- +goose Up
-- The pairs of neighbouring characters of a text. Search finds a part of a name by them. Unlike trigrams, they also serve
-- words of two characters, which is the length of many Chinese words, and any locale of the database.
-- +goose StatementBegin
CREATE FUNCTION name_pairs(name text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    c     text[] := regexp_split_to_array(name, '');
    pairs text[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(c) - 1 LOOP
        pairs := pairs || (c[i] || c[i + 1]);
    END LOOP;
    RETURN pairs;
END $$;
-- +goose StatementEnd

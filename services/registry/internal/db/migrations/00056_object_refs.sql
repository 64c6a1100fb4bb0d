-- +goose Up
-- Objects that must not be deleted until a time, although no other row refers to them yet: upload URLs were issued for
-- them, or a version is about to refer to them.
CREATE TABLE object_hold (
    key        text        PRIMARY KEY,
    held_until timestamptz NOT NULL
);
CREATE INDEX object_hold_until_idx ON object_hold (held_until);

-- Every transaction that begins to refer to objects takes this lock. The sweep of unused objects takes it exclusively, so
-- that it sees all references before it deletes.
-- +goose StatementBegin
CREATE FUNCTION refer_to_objects() RETURNS trigger
LANGUAGE plpgsql SET search_path = registry, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('registry objects', 0));
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER refer_to_objects BEFORE INSERT OR UPDATE OF manifest ON dataset_version EXECUTE FUNCTION refer_to_objects();
CREATE TRIGGER refer_to_objects BEFORE INSERT ON package EXECUTE FUNCTION refer_to_objects();
CREATE TRIGGER refer_to_objects BEFORE INSERT OR UPDATE OF manifest ON environment_version EXECUTE FUNCTION refer_to_objects();
CREATE TRIGGER refer_to_objects BEFORE INSERT OR UPDATE ON object_hold EXECUTE FUNCTION refer_to_objects();

-- The digests of the objects of a version of a dataset.
-- +goose StatementBegin
CREATE FUNCTION manifest_digests(manifest json) RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT coalesce(array_agg(DISTINCT f ->> 'sha256'), '{}')
    FROM json_array_elements(CASE json_typeof(manifest) WHEN 'array' THEN manifest ELSE '[]' END) f
$$;
-- +goose StatementEnd

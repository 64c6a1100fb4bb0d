-- +goose Up
-- Objects that must not be deleted until a time, although no artifact refers to them yet: upload URLs were issued for
-- them, or an artifact is about to be registered.
CREATE TABLE object_hold (
    key        text        PRIMARY KEY,
    held_until timestamptz NOT NULL
);
CREATE INDEX object_hold_until_idx ON object_hold (held_until);

-- Every transaction that begins to refer to objects takes this lock. The sweep of unused objects takes it exclusively, so
-- that it sees all references before it deletes.
-- +goose StatementBegin
CREATE FUNCTION refer_to_objects() RETURNS trigger
LANGUAGE plpgsql SET search_path = ingest, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('ingest objects', 0));
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER refer_to_objects BEFORE INSERT OR UPDATE ON object_hold EXECUTE FUNCTION refer_to_objects();

-- +goose Down
DROP TABLE object_hold;
DROP FUNCTION refer_to_objects;

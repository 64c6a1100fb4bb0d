-- +goose Up
-- An upload that takes over the name of an abandoned one has none of its packs. A trigger clears them, because replicas of
-- the previous version, which do not know packs, also take over names.
-- +goose StatementBegin
CREATE FUNCTION clear_packs() RETURNS trigger
LANGUAGE plpgsql SET search_path = registry, pg_temp AS $$
BEGIN
    NEW.packs := NULL;
    NEW.alone := NULL;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER clear_packs BEFORE UPDATE OF manifest ON dataset_version FOR EACH ROW EXECUTE FUNCTION clear_packs();

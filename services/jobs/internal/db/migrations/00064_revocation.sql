-- +goose Up
CREATE TRIGGER record_join AFTER UPDATE OF revoked_at ON join_token FOR EACH ROW
    WHEN (old.revoked_at IS NULL AND new.revoked_at IS NOT NULL) EXECUTE FUNCTION record_revocation('join', 'hash');
CREATE TRIGGER record_join_deleted AFTER DELETE ON join_token FOR EACH ROW EXECUTE FUNCTION record_revocation('join', 'hash');
-- A join token is valid for a number of nodes. Each row of this kind is one use.
CREATE TRIGGER record_join_use AFTER UPDATE OF uses ON join_token FOR EACH ROW
    WHEN (new.uses > old.uses) EXECUTE FUNCTION record_revocation('join_use', 'hash');
-- Without its row, a node's certificate is refused.
CREATE TRIGGER record_node AFTER DELETE ON node FOR EACH ROW EXECUTE FUNCTION record_revocation('node', 'id');
CREATE TRIGGER record_share AFTER UPDATE OF revoked_at ON share FOR EACH ROW
    WHEN (old.revoked_at IS NULL AND new.revoked_at IS NOT NULL) EXECUTE FUNCTION record_revocation('share', 'hash');
CREATE TRIGGER record_ingest AFTER UPDATE OF revoked_at ON ingest_token FOR EACH ROW
    WHEN (old.revoked_at IS NULL AND new.revoked_at IS NOT NULL) EXECUTE FUNCTION record_revocation('ingest', 'hash');
CREATE TRIGGER record_ingest_deleted AFTER DELETE ON ingest_token FOR EACH ROW
    WHEN (old.revoked_at IS NULL) EXECUTE FUNCTION record_revocation('ingest', 'hash');

-- Deletes a node and fences its work, as the removal by an admin does.
-- +goose StatementBegin
CREATE FUNCTION remove_node(what text) RETURNS void LANGUAGE sql AS $$
    UPDATE ingest_token SET revoked_at = clock_timestamp() WHERE revoked_at IS NULL
        AND work_id IN (SELECT id FROM work WHERE node_id = what AND released_at IS NULL);
    UPDATE work SET fence = fence + 1, updated_at = clock_timestamp() WHERE node_id = what AND released_at IS NULL;
    DELETE FROM node WHERE id = what;
$$;
-- +goose StatementEnd

-- Revokes something again after the database was restored. It returns false if nothing had to be revoked.
-- +goose StatementBegin
CREATE FUNCTION revoke_again(revoked text, what text, keep text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    n integer := 0;
BEGIN
    CASE revoked
    WHEN 'join' THEN
        UPDATE join_token SET revoked_at = clock_timestamp() WHERE hash = what::bytea AND revoked_at IS NULL;
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'join_use' THEN
        UPDATE join_token SET uses = uses + 1 WHERE hash = what::bytea AND uses < max_uses;
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'node' THEN
        SELECT count(*) INTO n FROM node WHERE id = what;
        PERFORM remove_node(what);
    WHEN 'share' THEN
        DELETE FROM share_pin WHERE share_id IN (SELECT id FROM share WHERE hash = what::bytea);
        UPDATE share SET revoked_at = clock_timestamp() WHERE hash = what::bytea AND revoked_at IS NULL;
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'ingest' THEN
        UPDATE ingest_token SET revoked_at = clock_timestamp() WHERE hash = what::bytea AND revoked_at IS NULL;
        GET DIAGNOSTICS n = ROW_COUNT;
    ELSE
        RAISE EXCEPTION 'revocations of kind % are unknown; use signalbox-setup of the version that wrote the journal', revoked;
    END CASE;
    RETURN n > 0;
END
$$;
-- +goose StatementEnd

-- Revokes everything that can be revoked. Nodes join again with new tokens.
-- +goose StatementBegin
CREATE FUNCTION revoke_everything(keep text) RETURNS void LANGUAGE sql AS $$
    UPDATE join_token SET revoked_at = clock_timestamp() WHERE revoked_at IS NULL;
    DELETE FROM share_pin;
    UPDATE share SET revoked_at = clock_timestamp() WHERE revoked_at IS NULL;
    SELECT remove_node(id) FROM node;
    UPDATE ingest_token SET revoked_at = clock_timestamp() WHERE revoked_at IS NULL;
$$;
-- +goose StatementEnd

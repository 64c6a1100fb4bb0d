-- +goose Up
CREATE TRIGGER record_deployment AFTER UPDATE OF revoked_at ON deployment_token FOR EACH ROW
    WHEN (old.revoked_at IS NULL AND new.revoked_at IS NOT NULL) EXECUTE FUNCTION record_revocation('deployment', 'hash');

-- Revokes something again after the database was restored. It returns false if nothing had to be revoked. raise_epochs
-- must be called afterwards, so that every replica of inference reads the tokens again.
-- +goose StatementBegin
CREATE FUNCTION revoke_again(revoked text, what text, keep text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    n integer := 0;
BEGIN
    IF revoked <> 'deployment' THEN
        RAISE EXCEPTION 'revocations of kind % are unknown; use signalbox-setup of the version that wrote the journal', revoked;
    END IF;
    UPDATE deployment_token SET revoked_at = clock_timestamp(), revoked_epoch = (SELECT epoch + 1 FROM snapshot_epoch)
        WHERE hash = what::bytea AND revoked_at IS NULL;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n > 0;
END
$$;
-- +goose StatementEnd

-- Revokes everything that can be revoked. raise_epochs must be called afterwards.
-- +goose StatementBegin
CREATE FUNCTION revoke_everything(keep text) RETURNS void LANGUAGE sql AS $$
    UPDATE deployment_token SET revoked_at = clock_timestamp(), revoked_epoch = (SELECT epoch + 1 FROM snapshot_epoch)
        WHERE revoked_at IS NULL;
$$;
-- +goose StatementEnd

-- Raises the epoch above every epoch that a replica of inference may have seen before the restore. A replica that has an
-- earlier epoch then receives the complete state, because the changes between are not stored.
-- +goose StatementBegin
CREATE FUNCTION raise_epochs() RETURNS void LANGUAGE sql AS $$
    DELETE FROM inference_replica;
    DELETE FROM snapshot_change;
    UPDATE snapshot_epoch SET epoch = epoch + 4294967296;
$$;
-- +goose StatementEnd

-- +goose Up
CREATE TRIGGER record_access AFTER UPDATE OF revoked_at ON session FOR EACH ROW
    WHEN (old.revoked_at IS NULL AND new.revoked_at IS NOT NULL) EXECUTE FUNCTION record_revocation('access', 'id');
-- A refresh token is revoked by its use.
CREATE TRIGGER record_refresh AFTER UPDATE OF used_at ON refresh_token FOR EACH ROW
    WHEN (old.used_at IS NULL AND new.used_at IS NOT NULL) EXECUTE FUNCTION record_revocation('refresh', 'hash');
CREATE TRIGGER record_refresh AFTER UPDATE OF used_at ON oauth_refresh_token FOR EACH ROW
    WHEN (old.used_at IS NULL AND new.used_at IS NOT NULL) EXECUTE FUNCTION record_revocation('refresh', 'hash');
CREATE TRIGGER record_grant AFTER UPDATE OF revoked_at ON oauth_grant FOR EACH ROW
    WHEN (old.revoked_at IS NULL AND new.revoked_at IS NOT NULL) EXECUTE FUNCTION record_revocation('grant', 'id');
CREATE TRIGGER record_code AFTER UPDATE OF code_used_at ON oauth_grant FOR EACH ROW
    WHEN (old.code_used_at IS NULL AND new.code_used_at IS NOT NULL) EXECUTE FUNCTION record_revocation('grant_code', 'id');
CREATE TRIGGER record_device_code AFTER UPDATE OF state ON device_code FOR EACH ROW
    WHEN (old.state IN ('pending', 'approved') AND new.state IN ('denied', 'used')) EXECUTE FUNCTION record_revocation('device_code', 'hash');
CREATE TRIGGER record_user AFTER UPDATE OF disabled_at ON account FOR EACH ROW
    WHEN (old.disabled_at IS NULL AND new.disabled_at IS NOT NULL) EXECUTE FUNCTION record_revocation('user', 'id');
CREATE TRIGGER record_user_enabled AFTER UPDATE OF disabled_at ON account FOR EACH ROW
    WHEN (old.disabled_at IS NOT NULL AND new.disabled_at IS NULL) EXECUTE FUNCTION record_revocation('user_enabled', 'id');
CREATE TRIGGER record_admin AFTER UPDATE OF role ON account FOR EACH ROW
    WHEN (old.role = 'admin' AND new.role <> 'admin') EXECUTE FUNCTION record_revocation('admin', 'id');
CREATE TRIGGER record_admin_enabled AFTER UPDATE OF role ON account FOR EACH ROW
    WHEN (old.role <> 'admin' AND new.role = 'admin') EXECUTE FUNCTION record_revocation('admin_enabled', 'id');
-- A new password raises the epoch; a new hash of the same password does not.
CREATE TRIGGER record_password AFTER UPDATE OF password_hash ON account FOR EACH ROW
    WHEN (old.password_hash <> '' AND old.password_hash <> new.password_hash AND old.epoch <> new.epoch)
    EXECUTE FUNCTION record_revocation('password', 'id');
CREATE TRIGGER record_signing_key AFTER UPDATE OF revoked_at ON signing_key FOR EACH ROW
    WHEN (old.revoked_at IS NULL AND new.revoked_at IS NOT NULL) EXECUTE FUNCTION record_revocation('signing_key', 'kid');

-- Revokes something again after the database was restored. It returns false if nothing had to be revoked. The user with
-- the id keep stays an enabled admin with a password, or is '' if no user was named. The kind password must come after the
-- kinds user and admin, because it depends on which admins are left.
-- +goose StatementBegin
CREATE FUNCTION revoke_again(revoked text, what text, keep text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    n integer := 0;
    more integer;
BEGIN
    CASE revoked
    WHEN 'access' THEN
        UPDATE session SET revoked_at = clock_timestamp(), revoked_reason = 'admin' WHERE id = what AND revoked_at IS NULL;
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'refresh' THEN
        UPDATE refresh_token SET used_at = clock_timestamp() WHERE hash = what::bytea AND used_at IS NULL;
        GET DIAGNOSTICS n = ROW_COUNT;
        UPDATE oauth_refresh_token SET used_at = clock_timestamp() WHERE hash = what::bytea AND used_at IS NULL;
        GET DIAGNOSTICS more = ROW_COUNT;
        n := n + more;
    WHEN 'grant' THEN
        UPDATE oauth_grant SET revoked_at = clock_timestamp(), revoked_reason = 'client' WHERE id = what AND revoked_at IS NULL;
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'grant_code' THEN
        UPDATE oauth_grant SET revoked_at = clock_timestamp(), revoked_reason = 'replay'
            WHERE id = what AND revoked_at IS NULL AND code_used_at IS NULL;
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'device_code' THEN
        DELETE FROM device_code WHERE hash = what::bytea AND state IN ('pending', 'approved');
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'user' THEN
        UPDATE account SET disabled_at = clock_timestamp(), epoch = epoch + 1
            WHERE id = what AND id <> keep AND disabled_at IS NULL;
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'admin' THEN
        UPDATE account SET role = 'operator', epoch = epoch + 1 WHERE id = what AND id <> keep AND role = 'admin';
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'password' THEN
        -- The new password is lost. An admin sets the next one. The user keep, and the last admin who has a password, keep
        -- the old one and change it at the next login.
        UPDATE account a SET epoch = epoch + 1, must_change_password = true,
            password_hash = CASE WHEN a.id <> keep AND EXISTS (SELECT FROM account o WHERE o.id <> a.id AND o.role = 'admin' AND o.disabled_at IS NULL
                AND o.password_hash <> '') THEN '' ELSE password_hash END
            WHERE id = what AND password_hash <> '';
        GET DIAGNOSTICS n = ROW_COUNT;
    WHEN 'signing_key' THEN
        UPDATE signing_key SET revoked_at = clock_timestamp(), sealed = NULL WHERE kid = what AND revoked_at IS NULL;
        GET DIAGNOSTICS n = ROW_COUNT;
    ELSE
        RAISE EXCEPTION 'revocations of kind % are unknown; use signalbox-setup of the version that wrote the journal', revoked;
    END CASE;
    RETURN n > 0;
END
$$;
-- +goose StatementEnd

-- Revokes everything that can be revoked, except the user with the id keep.
-- +goose StatementBegin
CREATE FUNCTION revoke_everything(keep text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE session SET revoked_at = clock_timestamp(), revoked_reason = 'admin' WHERE revoked_at IS NULL;
    UPDATE refresh_token SET used_at = clock_timestamp() WHERE used_at IS NULL;
    UPDATE oauth_refresh_token SET used_at = clock_timestamp() WHERE used_at IS NULL;
    UPDATE oauth_grant SET revoked_at = clock_timestamp(), revoked_reason = 'client' WHERE revoked_at IS NULL;
    DELETE FROM device_code WHERE state IN ('pending', 'approved');
    UPDATE account SET disabled_at = clock_timestamp() WHERE disabled_at IS NULL AND id <> keep;
    UPDATE account SET epoch = epoch + 1;
    UPDATE signing_key SET revoked_at = clock_timestamp(), sealed = NULL WHERE revoked_at IS NULL;
END
$$;
-- +goose StatementEnd

-- Raises the numbers that other processes have seen above everything that they may have seen before the restore.
-- +goose StatementBegin
CREATE FUNCTION raise_epochs() RETURNS void LANGUAGE sql AS $$
    DELETE FROM gateway_lease;
    UPDATE caller_epoch SET epoch = epoch + 4294967296;
$$;
-- +goose StatementEnd

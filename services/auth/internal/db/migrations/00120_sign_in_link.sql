-- +goose Up
-- Links that sign in an admin once, on the machine of the server. If the epoch of the account has increased since, the
-- link is void. At most ten rows are kept, for minutes.
CREATE TABLE sign_in_link (
    hash          bytea       PRIMARY KEY CHECK (length(hash) = 32),
    account_id    text        NOT NULL REFERENCES account (id),
    account_epoch bigint      NOT NULL,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    used_at       timestamptz
);
CREATE TRIGGER record_sign_in_link AFTER UPDATE OF used_at ON sign_in_link FOR EACH ROW
    WHEN (old.used_at IS NULL AND new.used_at IS NOT NULL) EXECUTE FUNCTION record_revocation('sign_in_link', 'hash');

-- Revokes something again after the database was restored. It returns false if nothing had to be revoked. The user with
-- the id keep stays an enabled admin with a password, or is '' if no user was named. The kind password must come after the
-- kinds user and admin, because it depends on which admins are left.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION revoke_again(revoked text, what text, keep text) RETURNS boolean LANGUAGE plpgsql AS $$
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
    WHEN 'sign_in_link' THEN
        DELETE FROM sign_in_link WHERE hash = what::bytea AND used_at IS NULL;
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
CREATE OR REPLACE FUNCTION revoke_everything(keep text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE session SET revoked_at = clock_timestamp(), revoked_reason = 'admin' WHERE revoked_at IS NULL;
    UPDATE refresh_token SET used_at = clock_timestamp() WHERE used_at IS NULL;
    UPDATE oauth_refresh_token SET used_at = clock_timestamp() WHERE used_at IS NULL;
    UPDATE oauth_grant SET revoked_at = clock_timestamp(), revoked_reason = 'client' WHERE revoked_at IS NULL;
    DELETE FROM device_code WHERE state IN ('pending', 'approved');
    DELETE FROM sign_in_link;
    UPDATE account SET disabled_at = clock_timestamp() WHERE disabled_at IS NULL AND id <> keep;
    UPDATE account SET epoch = epoch + 1;
    UPDATE signing_key SET revoked_at = clock_timestamp(), sealed = NULL WHERE revoked_at IS NULL;
END
$$;
-- +goose StatementEnd

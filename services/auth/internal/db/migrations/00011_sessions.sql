-- +goose Up
ALTER TABLE session
    ADD COLUMN method       text NOT NULL DEFAULT 'password' CHECK (method IN ('password', 'oidc', 'device', 'oauth')),
    ADD COLUMN client_name  text CHECK (length(client_name) BETWEEN 1 AND 256),
    -- Written by the check of an access token, at most once a minute.
    ADD COLUMN last_used_at timestamptz NOT NULL DEFAULT now(),
    -- When nothing holds any more that was issued for the session. The defaults serve processes of the
    -- version before during an upgrade.
    ADD COLUMN expires_at   timestamptz NOT NULL DEFAULT now() + interval '30 days',
    DROP CONSTRAINT session_revoked_reason_check,
    ADD CONSTRAINT session_revoked_reason_check
        CHECK (revoked_reason IN ('logout', 'reuse', 'admin', 'user', 'password', 'disabled'));

UPDATE session SET last_used_at = created_at, expires_at = created_at + interval '30 days';

-- The password was drawn by the service and shown to somebody else: its owner changes it before anything else.
ALTER TABLE account ADD COLUMN must_change_password boolean NOT NULL DEFAULT false;

-- +goose Up
ALTER TABLE session
    ADD COLUMN method       text NOT NULL DEFAULT 'password' CHECK (method IN ('password', 'oidc', 'device', 'oauth')),
    ADD COLUMN client_name  text CHECK (length(client_name) BETWEEN 1 AND 256),
    -- When an access token of the session was last checked. It is written at most once a minute.
    ADD COLUMN last_used_at timestamptz NOT NULL DEFAULT now(),
    -- When the last token of the session expires. The defaults are for replicas of the previous version during an
    -- upgrade.
    ADD COLUMN expires_at   timestamptz NOT NULL DEFAULT now() + interval '30 days',
    DROP CONSTRAINT session_revoked_reason_check,
    ADD CONSTRAINT session_revoked_reason_check
        CHECK (revoked_reason IN ('logout', 'reuse', 'admin', 'user', 'password', 'disabled'));

UPDATE session SET last_used_at = created_at, expires_at = created_at + interval '30 days';

-- True while the password is one that the service generated. Other people have seen it, so the user must change it
-- before most other calls.
ALTER TABLE account ADD COLUMN must_change_password boolean NOT NULL DEFAULT false;

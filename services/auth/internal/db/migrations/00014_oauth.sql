-- +goose Up
-- Public clients of the authorization server; they have no secrets.
CREATE TABLE oauth_client (
    id            text PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 2048),
    name          text NOT NULL CHECK (length(name) BETWEEN 1 AND 256),
    redirect_uris text[] NOT NULL CHECK (cardinality(redirect_uris) BETWEEN 1 AND 32),
    created_at    timestamptz NOT NULL
);

-- A grant lets a client act for a user on one resource. It begins with a code. The code is exchanged once, for a
-- session and the first refresh token.
CREATE TABLE oauth_grant (
    id              text PRIMARY KEY,
    client_id       text NOT NULL REFERENCES oauth_client (id),
    account_id      text NOT NULL REFERENCES account (id),
    -- The account's epoch when the user approved the grant. If the epoch increases, the grant ends.
    account_epoch   bigint NOT NULL,
    resource        text NOT NULL,
    scope           text NOT NULL,
    redirect_uri    text NOT NULL,
    code_hash       bytea NOT NULL CONSTRAINT oauth_grant_code_key UNIQUE CHECK (length(code_hash) = 32),
    code_challenge  text NOT NULL CHECK (length(code_challenge) = 43),
    created_at      timestamptz NOT NULL,
    code_expires_at timestamptz NOT NULL,
    code_used_at    timestamptz,
    session_id      text CONSTRAINT oauth_grant_session_key UNIQUE REFERENCES session (id) ON DELETE CASCADE,
    revoked_at      timestamptz,
    revoked_reason  text CHECK (revoked_reason IN ('replay', 'reuse', 'client')),
    CHECK ((code_used_at IS NULL) = (session_id IS NULL)),
    CHECK ((revoked_at IS NULL) = (revoked_reason IS NULL))
);
CREATE INDEX oauth_grant_expires_idx ON oauth_grant (code_expires_at);

-- Refresh tokens of OAuth clients have their own table, so that none of them is accepted as the refresh token of a
-- browser.
CREATE TABLE oauth_refresh_token (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    grant_id   text NOT NULL REFERENCES oauth_grant (id) ON DELETE CASCADE,
    issued_at  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX oauth_refresh_token_grant_idx ON oauth_refresh_token (grant_id, expires_at);

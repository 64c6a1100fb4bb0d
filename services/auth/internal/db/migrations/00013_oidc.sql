-- +goose Up
-- Sign-ins in progress at the OpenID provider. The secrets of a sign-in are stored only in the browser; this table
-- contains their hashes.
CREATE TABLE oidc_sign_in (
    state_hash   bytea PRIMARY KEY CHECK (length(state_hash) = 32),
    binding_hash bytea NOT NULL CHECK (length(binding_hash) = 32),
    -- The path to which the browser goes after the sign-in. It may contain a code, so it is encrypted with a key that
    -- is derived from the browser's secrets.
    sealed_next  bytea NOT NULL CHECK (length(sealed_next) <= 4096),
    expires_at   timestamptz NOT NULL,
    used_at      timestamptz
);
CREATE INDEX oidc_sign_in_expiry_idx ON oidc_sign_in (expires_at);

-- Users of the OpenID provider. The provider may give a name or an e-mail address to another user later, but never
-- the same issuer and subject.
CREATE TABLE oidc_identity (
    issuer          text NOT NULL CHECK (length(issuer) BETWEEN 1 AND 2048),
    subject         text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
    account_id      text NOT NULL CONSTRAINT oidc_identity_account_key UNIQUE REFERENCES account (id),
    created_at      timestamptz NOT NULL,
    last_sign_in_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject)
);

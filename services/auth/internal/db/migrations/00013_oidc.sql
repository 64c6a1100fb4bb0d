-- +goose Up
-- Sign-ins in progress at the provider. The table holds only hashes: what the callback needs is derived from a
-- value that only the browser keeps.
CREATE TABLE oidc_sign_in (
    state_hash   bytea PRIMARY KEY CHECK (length(state_hash) = 32),
    binding_hash bytea NOT NULL CHECK (length(binding_hash) = 32),
    -- Where the browser goes afterwards, sealed with the browser's key because the address may carry a code.
    sealed_next  bytea NOT NULL CHECK (length(sealed_next) <= 4096),
    expires_at   timestamptz NOT NULL,
    used_at      timestamptz
);
CREATE INDEX oidc_sign_in_expiry_idx ON oidc_sign_in (expires_at);

-- The identity of a person at the provider. Names and e-mail addresses can be reassigned there; issuer and subject
-- cannot.
CREATE TABLE oidc_identity (
    issuer          text NOT NULL CHECK (length(issuer) BETWEEN 1 AND 2048),
    subject         text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
    account_id      text NOT NULL CONSTRAINT oidc_identity_account_key UNIQUE REFERENCES account (id),
    created_at      timestamptz NOT NULL,
    last_sign_in_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject)
);

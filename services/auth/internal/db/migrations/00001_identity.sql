-- +goose Up
CREATE TABLE account (
    id            text PRIMARY KEY,
    username      text NOT NULL CONSTRAINT account_username_key UNIQUE CHECK (length(username) BETWEEN 1 AND 256),
    role          text NOT NULL CHECK (role IN ('admin', 'operator')),
    email         text,
    password_hash text NOT NULL,
    -- Increased by every change that must end the account's access tokens: disabling, a new password.
    epoch         bigint NOT NULL DEFAULT 1,
    disabled_at   timestamptz,
    created_at    timestamptz NOT NULL
);

CREATE TABLE project (
    id         text PRIMARY KEY,
    key        text NOT NULL CONSTRAINT project_key_key UNIQUE CHECK (key ~ '^[a-z0-9-]{2,40}$'),
    name       text NOT NULL,
    visibility text NOT NULL CHECK (visibility IN ('team', 'all')),
    created_at timestamptz NOT NULL
);

CREATE TABLE membership (
    project_id text NOT NULL REFERENCES project (id),
    account_id text NOT NULL REFERENCES account (id),
    role       text NOT NULL CHECK (role IN ('viewer', 'editor', 'owner')),
    PRIMARY KEY (account_id, project_id)
);

CREATE TABLE session (
    id             text PRIMARY KEY,
    account_id     text NOT NULL REFERENCES account (id),
    client_address text NOT NULL,
    created_at     timestamptz NOT NULL,
    revoked_at     timestamptz,
    revoked_reason text CHECK (revoked_reason IN ('logout', 'reuse', 'admin'))
);
CREATE INDEX session_account_idx ON session (account_id) WHERE revoked_at IS NULL;

-- One row per refresh token. The tokens of a session form a family.
CREATE TABLE refresh_token (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    session_id text NOT NULL REFERENCES session (id),
    issued_at  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX refresh_token_session_idx ON refresh_token (session_id);

-- sealed is the private key, encrypted with the installation's keyring and bound to the row.
CREATE TABLE signing_key (
    kid        text PRIMARY KEY,
    purpose    text NOT NULL CHECK (purpose IN ('access', 'caller')),
    sealed     bytea NOT NULL,
    public_key bytea NOT NULL CHECK (length(public_key) = 32),
    created_at timestamptz NOT NULL,
    retired_at timestamptz
);
-- If two processes start at the same time, the first one creates the key and the other one uses it.
CREATE UNIQUE INDEX signing_key_live_idx ON signing_key (purpose) WHERE retired_at IS NULL;

-- Login attempts by client address, counted across all replicas.
CREATE TABLE login_attempt (
    address text NOT NULL,
    at      timestamptz NOT NULL
);
CREATE INDEX login_attempt_idx ON login_attempt (address, at);

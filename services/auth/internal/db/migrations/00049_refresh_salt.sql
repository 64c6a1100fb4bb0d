-- +goose Up
-- The salts of refresh tokens that were exchanged in the last seconds. The successor of a token is derived from the token
-- and its salt, so that a client whose response was lost gets the same successor again. No token is stored. Rows are
-- deleted after some seconds; from then on the successor cannot be derived.
CREATE TABLE refresh_salt (
    hash           bytea       PRIMARY KEY CHECK (length(hash) = 32),
    salt           bytea       NOT NULL CHECK (length(salt) = 32),
    client_address text        NOT NULL,
    used_at        timestamptz NOT NULL
);
CREATE INDEX refresh_salt_used_idx ON refresh_salt (used_at);

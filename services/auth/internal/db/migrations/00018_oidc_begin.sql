-- +goose Up
-- The client that began a sign-in, counted over all replicas: its address, or the /64 of an IPv6 address. The
-- defaults are for replicas of the previous version, which do not know the columns.
ALTER TABLE oidc_sign_in
    ADD COLUMN address_key text NOT NULL DEFAULT 'unknown',
    ADD COLUMN begun_at    timestamptz NOT NULL DEFAULT now();
CREATE INDEX oidc_sign_in_address_idx ON oidc_sign_in (address_key, begun_at);

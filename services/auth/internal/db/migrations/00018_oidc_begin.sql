-- +goose Up
-- Who began a sign-in, to be counted over all replicas: the address, of an IPv6 address its /64. The
-- defaults are for replicas of the version before, which do not know the columns.
ALTER TABLE oidc_sign_in
    ADD COLUMN address_key text NOT NULL DEFAULT 'unknown',
    ADD COLUMN begun_at    timestamptz NOT NULL DEFAULT now();
CREATE INDEX oidc_sign_in_address_idx ON oidc_sign_in (address_key, begun_at);

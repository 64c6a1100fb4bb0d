-- +goose Up
-- address_key is the address of the client that began the sign-in, or the /64 network of an IPv6 address. Sign-ins
-- are counted by it across all replicas. The defaults are for replicas of the previous version, which do not write
-- these columns.
ALTER TABLE oidc_sign_in
    ADD COLUMN address_key text NOT NULL DEFAULT 'unknown',
    ADD COLUMN begun_at    timestamptz NOT NULL DEFAULT now();
CREATE INDEX oidc_sign_in_address_idx ON oidc_sign_in (address_key, begun_at);

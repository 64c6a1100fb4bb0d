-- +goose Up
-- A purpose may have several keys. The newest key whose signs_at has passed signs new tokens. Tokens of older keys
-- stay valid until verifies_until.
DROP INDEX signing_key_live_idx;
ALTER TABLE signing_key
    -- Numbers the keys of a purpose. If replicas create the next key at the same time, only one of them succeeds.
    ADD COLUMN generation     bigint,
    -- When the key begins to sign. It is published earlier, so that every verifier has read it by then.
    ADD COLUMN signs_at       timestamptz,
    -- When tokens of a replaced key stop being accepted; null while the key has no successor.
    ADD COLUMN verifies_until timestamptz,
    -- When an admin revoked the key; null if it is not revoked. Access tokens of a revoked key are rejected at once,
    -- caller identities within seconds.
    ADD COLUMN revoked_at     timestamptz,
    ALTER COLUMN sealed DROP NOT NULL;

UPDATE signing_key k SET signs_at = k.created_at, generation = n.generation
FROM (SELECT kid, row_number() OVER (PARTITION BY purpose ORDER BY created_at, kid) AS generation FROM signing_key) n
WHERE n.kid = k.kid;

ALTER TABLE signing_key
    ALTER COLUMN generation SET NOT NULL,
    ALTER COLUMN signs_at SET NOT NULL,
    ADD CONSTRAINT signing_key_generation_key UNIQUE (purpose, generation),
    -- The private half of a retired or revoked key is deleted.
    ADD CONSTRAINT signing_key_sealed_check CHECK (sealed IS NOT NULL OR retired_at IS NOT NULL OR revoked_at IS NOT NULL);

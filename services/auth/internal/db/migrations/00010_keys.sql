-- +goose Up
-- A purpose has several keys at a time. The newest that may sign is the one that signs; older ones still verify.
DROP INDEX signing_key_live_idx;
ALTER TABLE signing_key
    -- Numbers the keys of a purpose: if replicas race to create the next one, only one of them succeeds.
    ADD COLUMN generation     bigint,
    -- A key is published before it signs, so that every verifier knows it by then.
    ADD COLUMN signs_at       timestamptz,
    -- Until when tokens of a replaced key are accepted; null while the key has no successor.
    ADD COLUMN verifies_until timestamptz,
    -- Set by an admin: nothing that the key signed is accepted any more.
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

-- +goose Up
-- A purpose has several keys at a time: the newest that may sign does, those before it still verify.
DROP INDEX signing_key_live_idx;
ALTER TABLE signing_key
    -- Counts the keys of a purpose: of replicas that race to make the next one, one does.
    ADD COLUMN generation     bigint,
    -- A key is published before it signs, so that whoever verifies knows it by then.
    ADD COLUMN signs_at       timestamptz,
    -- How long tokens of a key with a successor may live; null while it has none.
    ADD COLUMN verifies_until timestamptz,
    -- Set by an admin: nothing that the key signed holds any more.
    ADD COLUMN revoked_at     timestamptz,
    ALTER COLUMN sealed DROP NOT NULL;

UPDATE signing_key k SET signs_at = k.created_at, generation = n.generation
FROM (SELECT kid, row_number() OVER (PARTITION BY purpose ORDER BY created_at, kid) AS generation FROM signing_key) n
WHERE n.kid = k.kid;

ALTER TABLE signing_key
    ALTER COLUMN generation SET NOT NULL,
    ALTER COLUMN signs_at SET NOT NULL,
    ADD CONSTRAINT signing_key_generation_key UNIQUE (purpose, generation),
    -- The private half of a key that is done is gone.
    ADD CONSTRAINT signing_key_sealed_check CHECK (sealed IS NOT NULL OR retired_at IS NOT NULL OR revoked_at IS NOT NULL);

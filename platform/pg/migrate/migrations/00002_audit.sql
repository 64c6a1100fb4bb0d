-- +goose Up
-- before and after are json, not jsonb, because the exact text is hashed.
CREATE TABLE audit (
    id          text        PRIMARY KEY,
    seq         bigint      GENERATED ALWAYS AS IDENTITY UNIQUE,
    at          timestamptz NOT NULL,
    actor_kind  text        NOT NULL,
    actor_id    text        NOT NULL,
    actor_name  text        NOT NULL,
    session_id  text        NOT NULL,
    client_addr text        NOT NULL,
    action      text        NOT NULL,
    target_kind text        NOT NULL,
    target_id   text        NOT NULL,
    before      json,
    after       json,
    request_id  text        NOT NULL
);
CREATE INDEX audit_at ON audit (at DESC, id DESC);
CREATE INDEX audit_target ON audit (target_kind, target_id, seq);
CREATE INDEX audit_actor ON audit (actor_id, seq);

-- The audit rows that are not in the hash chain yet. An entry is inserted with its audit row and deleted by the sealer.
CREATE TABLE audit_pending (
    seq      bigint PRIMARY KEY,
    audit_id text   NOT NULL
);

-- The hash chain. audit_id is not a foreign key, because the chain must outlive deleted rows.
CREATE TABLE audit_seal (
    position bigint PRIMARY KEY CHECK (position > 0),
    audit_id text   NOT NULL UNIQUE,
    hash     bytea  NOT NULL CHECK (octet_length(hash) = 32)
);

CREATE TABLE audit_checkpoint (
    position  bigint      PRIMARY KEY,
    previous  bigint      NOT NULL,
    hash      bytea       NOT NULL,
    at        timestamptz NOT NULL,
    key_id    text        NOT NULL,
    signature bytea       NOT NULL
);

-- The server's role may insert and read the rows of audit, audit_seal and audit_checkpoint, but not change or delete
-- them.
-- +goose StatementBegin
DO $$
DECLARE
    g record;
BEGIN
    FOR g IN
        SELECT DISTINCT c.oid::regclass AS tbl, acl.grantee::regrole AS grantee
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS acl
        WHERE c.relnamespace = current_schema()::regnamespace
          AND c.relname IN ('audit', 'audit_seal', 'audit_checkpoint')
          AND acl.grantee <> c.relowner AND acl.grantee <> 0
    LOOP
        EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON %s FROM %s', g.tbl, g.grantee);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Up
-- Everything that was revoked. Triggers insert the rows, in the transaction of the revocation; the server copies them to
-- a journal outside the database (platform/audit). made_in finds the rows of transactions that have committed since the
-- last copy. subject is the id or the hash of what was revoked.
CREATE TABLE revocation (
    seq     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    made_in xid8        NOT NULL DEFAULT pg_current_xact_id(),
    kind    text        NOT NULL,
    subject text        NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX revocation_made_in ON revocation (made_in, seq);
CREATE INDEX revocation_at ON revocation (at);

-- journaled_at is when the journal of this schema began; null until a server has begun it. restored_at is when
-- signalbox-setup last completed a restore of this database. backup_at is the time of the last change in the backup, from
-- when signalbox-setup has changed the schema until a server uses it again.
CREATE TABLE continuity (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    journaled_at timestamptz,
    restored_at  timestamptz,
    backup_at    timestamptz
);
INSERT INTO continuity DEFAULT VALUES;

-- Records the revocation of a row. The arguments are the kind, and the column that identifies the row.
-- +goose StatementBegin
CREATE FUNCTION record_revocation() RETURNS trigger LANGUAGE plpgsql SET bytea_output = 'hex' AS $$
DECLARE
    changed jsonb;
BEGIN
    IF TG_OP = 'DELETE' THEN
        changed := to_jsonb(OLD);
    ELSE
        changed := to_jsonb(NEW);
    END IF;
    EXECUTE format('INSERT INTO %I.revocation (kind, subject) VALUES ($1, $2)', TG_TABLE_SCHEMA)
        USING TG_ARGV[0], changed ->> TG_ARGV[1];
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Up
-- Gateways cache callers. caller_epoch counts the changes after which a cached caller may be outdated: of sessions,
-- accounts, memberships, keys and the maintenance mode. changed_in is the last transaction that made one, so that a
-- transaction counts once.
CREATE TABLE caller_epoch (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch      bigint NOT NULL,
    changed_in xid8
);
INSERT INTO caller_epoch (epoch) VALUES (1);

-- The gateways that may use cached callers. A row has the epoch that the gateway has applied and the time, by
-- Postgres's clock, until which the gateway may use its cache.
CREATE TABLE gateway_lease (
    gateway_id  text        PRIMARY KEY,
    acked_epoch bigint      NOT NULL,
    lease_until timestamptz NOT NULL
);
CREATE INDEX gateway_lease_until_idx ON gateway_lease (lease_until);

-- The triggers are deferred, so that a transaction locks the row of caller_epoch just before it commits. Epochs therefore
-- increase in commit order, and no transaction waits for another lock while it holds this one.
-- +goose StatementBegin
CREATE FUNCTION raise_caller_epoch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE %I.caller_epoch SET epoch = epoch + 1, changed_in = pg_current_xact_id()
        WHERE changed_in IS DISTINCT FROM pg_current_xact_id()', TG_TABLE_SCHEMA);
    PERFORM pg_notify(TG_TABLE_SCHEMA || '_wake', 'callers');
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE CONSTRAINT TRIGGER raise_caller_epoch AFTER UPDATE OF revoked_at ON session
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (old.revoked_at IS DISTINCT FROM new.revoked_at) EXECUTE FUNCTION raise_caller_epoch();
CREATE CONSTRAINT TRIGGER raise_caller_epoch AFTER UPDATE OF username, role, epoch, disabled_at, must_change_password ON account
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((old.username, old.role, old.epoch, old.disabled_at, old.must_change_password)
        IS DISTINCT FROM (new.username, new.role, new.epoch, new.disabled_at, new.must_change_password))
    EXECUTE FUNCTION raise_caller_epoch();
CREATE CONSTRAINT TRIGGER raise_caller_epoch AFTER INSERT OR UPDATE OR DELETE ON membership
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION raise_caller_epoch();
CREATE CONSTRAINT TRIGGER raise_caller_epoch AFTER INSERT OR UPDATE OR DELETE ON team_member
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION raise_caller_epoch();
CREATE CONSTRAINT TRIGGER raise_caller_epoch AFTER UPDATE OF team_id ON project
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (old.team_id IS DISTINCT FROM new.team_id) EXECUTE FUNCTION raise_caller_epoch();
CREATE CONSTRAINT TRIGGER raise_caller_epoch AFTER UPDATE OF revoked_at ON signing_key
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (old.revoked_at IS DISTINCT FROM new.revoked_at) EXECUTE FUNCTION raise_caller_epoch();
CREATE CONSTRAINT TRIGGER raise_caller_epoch AFTER UPDATE ON maintenance
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION raise_caller_epoch();

-- +goose Up
-- Whether the installation is in maintenance. The table has exactly one row.
CREATE TABLE maintenance (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    mode            text NOT NULL CHECK (mode IN ('off', 'maintenance')),
    message         text NOT NULL DEFAULT '',
    until           timestamptz,
    changed_at      timestamptz,
    changed_by      text NOT NULL DEFAULT '',
    changed_by_name text NOT NULL DEFAULT '',
    CHECK (mode <> 'off' OR (message = '' AND until IS NULL))
);
INSERT INTO maintenance (mode) VALUES ('off');

-- A lock that lets only one test of the diagnosis agent's model run at a time in the installation. holder is the test
-- that has the lock; the lock expires at until.
CREATE TABLE agent_model_test (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder text        NOT NULL,
    until  timestamptz NOT NULL
);
INSERT INTO agent_model_test (holder, until) VALUES ('', 'epoch');

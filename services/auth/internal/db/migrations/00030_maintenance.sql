-- +goose Up
-- The mode of the installation. Every request reads it, so it is a single row without a key to look up.
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

-- The current holder of the test of the diagnosis agent's model, and until when it holds it: one test at a time
-- in the whole installation.
CREATE TABLE agent_model_test (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder text        NOT NULL,
    until  timestamptz NOT NULL
);
INSERT INTO agent_model_test (holder, until) VALUES ('', 'epoch');

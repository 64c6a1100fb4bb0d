-- +goose Up
-- The mode of the installation. It is read at every request, so there is one row and nothing to look for.
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

-- Who tests the diagnosis agent's model, and until when nobody else does: one test an installation.
CREATE TABLE agent_model_test (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder text        NOT NULL,
    until  timestamptz NOT NULL
);
INSERT INTO agent_model_test (holder, until) VALUES ('', 'epoch');

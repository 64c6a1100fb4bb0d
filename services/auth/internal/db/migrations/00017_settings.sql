-- +goose Up
-- All versions of each setting. The newest version is in force.
CREATE TABLE setting_version (
    key             text        NOT NULL,
    version         integer     NOT NULL CHECK (version > 0),
    -- False if this version resets the setting to its default.
    is_set          boolean     NOT NULL,
    value           json,
    -- The value of a secret, encrypted and bound to this row. It is deleted when the next version is written.
    sealed          bytea,
    changed_at      timestamptz NOT NULL,
    changed_by      text        NOT NULL,
    changed_by_name text        NOT NULL,
    PRIMARY KEY (key, version),
    CHECK (value IS NULL OR sealed IS NULL),
    CHECK (is_set OR (value IS NULL AND sealed IS NULL))
);

-- Counts the changes of all settings. Readers that cache values compare the number before each use.
CREATE TABLE setting_revision (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision bigint  NOT NULL
);
INSERT INTO setting_revision (revision) VALUES (0);

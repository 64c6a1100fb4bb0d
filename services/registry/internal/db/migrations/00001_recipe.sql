-- +goose Up
-- The catalog. The tree of a version lies in the object store under its own digest.
CREATE TABLE recipe (
    name         text        NOT NULL,
    version      text        NOT NULL,
    digest       text        NOT NULL,
    -- The manifest as it was written, and the requirements that it names.
    manifest     text        NOT NULL,
    requirements text        NOT NULL,
    state        text        NOT NULL CHECK (state IN ('active', 'deprecated', 'withdrawn')),
    tree_sha256  text        NOT NULL,
    tree_bytes   bigint      NOT NULL,
    -- When the catalog first had this digest.
    locked_at    timestamptz NOT NULL,
    PRIMARY KEY (name, version)
);

-- +goose Up
-- The recipe catalog. The tree of a version is stored in the object store under its digest.
CREATE TABLE recipe (
    name         text        NOT NULL,
    version      text        NOT NULL,
    digest       text        NOT NULL,
    -- The verbatim manifest, and the content of the requirements file that it names.
    manifest     text        NOT NULL,
    requirements text        NOT NULL,
    state        text        NOT NULL CHECK (state IN ('active', 'deprecated', 'withdrawn')),
    tree_sha256  text        NOT NULL,
    tree_bytes   bigint      NOT NULL,
    -- When the catalog first contained this digest.
    locked_at    timestamptz NOT NULL,
    PRIMARY KEY (name, version)
);

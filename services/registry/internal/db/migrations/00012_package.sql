-- +goose Up
-- Code packages of job submissions. An accepted package never changes.
CREATE TABLE package (
    id                 text        PRIMARY KEY,
    owner_id           text        NOT NULL,
    owner_name         text        NOT NULL,
    project_id         text        NOT NULL,
    project            text        NOT NULL,
    visibility         text        NOT NULL,
    visibility_version bigint      NOT NULL DEFAULT 0,
    sha256             text        NOT NULL,
    size_bytes         bigint      NOT NULL,
    state              text        NOT NULL CHECK (state IN ('uploading', 'accepted', 'refused')),
    -- The gate and the text of a refusal, and whether the package was too large.
    gate               text        NOT NULL DEFAULT '',
    refusal            text        NOT NULL DEFAULT '',
    too_large          boolean     NOT NULL DEFAULT false,
    created_at         timestamptz NOT NULL
);
CREATE INDEX package_sha256_idx ON package (project_id, sha256);
CREATE INDEX package_owner_idx ON package (owner_id);
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON package FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

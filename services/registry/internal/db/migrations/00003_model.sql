-- +goose Up
CREATE TABLE model (
    id             text        PRIMARY KEY,
    name           text        NOT NULL,
    owner_id       text        NOT NULL,
    owner_name     text        NOT NULL,
    project_id     text        NOT NULL,
    project        text        NOT NULL,
    visibility     text        NOT NULL,
    description    text        NOT NULL,
    task           text        NOT NULL CHECK (task IN ('chat', 'completion', 'embedding')),
    latest_version integer,
    next_version   integer     NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL,
    CONSTRAINT model_name_key UNIQUE (project_id, name)
);
CREATE INDEX model_created_idx ON model (created_at, id);

CREATE TABLE model_version (
    id            text        PRIMARY KEY,
    model_id      text        NOT NULL REFERENCES model (id),
    version       integer     NOT NULL,
    status        text        NOT NULL CHECK (status IN ('ready', 'rejected')),
    status_reason text        NOT NULL DEFAULT '',
    lifecycle     text        NOT NULL CHECK (lifecycle IN ('candidate', 'production', 'archived')),
    run_id        text        NOT NULL,
    artifact_id   text        NOT NULL,
    format        text        NOT NULL CHECK (format IN ('gguf', 'safetensors')),
    digest        text        NOT NULL,
    size_bytes    bigint      NOT NULL,
    -- The location of the bytes, the file name, and whether the file is a tar file of a folder.
    uri           text        NOT NULL,
    file          text        NOT NULL,
    packed        boolean     NOT NULL,
    facts         json        NOT NULL,
    created_at    timestamptz NOT NULL,
    CONSTRAINT model_version_key UNIQUE (model_id, version),
    CONSTRAINT model_version_digest_key UNIQUE (model_id, digest)
);

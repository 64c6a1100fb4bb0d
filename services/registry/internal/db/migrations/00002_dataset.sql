-- +goose Up
CREATE TABLE dataset (
    id             text        PRIMARY KEY,
    name           text        NOT NULL,
    owner_id       text        NOT NULL,
    owner_name     text        NOT NULL,
    project_id     text        NOT NULL,
    project        text        NOT NULL,
    visibility     text        NOT NULL,
    description    text        NOT NULL,
    format         text        NOT NULL CHECK (format IN ('jsonl', 'parquet', 'webdataset', 'files')),
    -- Protection does not hide that the dataset exists. Only jobs of users who may edit the dataset can read its
    -- records.
    protected      boolean     NOT NULL DEFAULT false,
    latest_version text,
    created_at     timestamptz NOT NULL,
    CONSTRAINT dataset_name_key UNIQUE (project_id, name)
);
CREATE INDEX dataset_created_idx ON dataset (created_at, id);

CREATE TABLE dataset_version (
    id           text        PRIMARY KEY,
    dataset_id   text        NOT NULL REFERENCES dataset (id),
    version      text        NOT NULL,
    state        text        NOT NULL CHECK (state IN ('uploading', 'ready', 'invalid')),
    digest       text        NOT NULL,
    files        integer     NOT NULL,
    bytes        bigint      NOT NULL,
    manifest     json        NOT NULL,
    creator_id   text        NOT NULL,
    created_at   timestamptz NOT NULL,
    committed_at timestamptz,
    CONSTRAINT dataset_version_key UNIQUE (dataset_id, version)
);

-- +goose Up
-- Promotion, archiving, aliases, history and cards of models.
ALTER TABLE model
    ADD COLUMN row_version bigint NOT NULL DEFAULT 1,
    -- A deleted model with versions that are still referenced keeps its rows; its name can be used again.
    ADD COLUMN deleted_at  timestamptz;
ALTER TABLE model DROP CONSTRAINT model_name_key;
CREATE UNIQUE INDEX model_name_key ON model (project_id, name) WHERE deleted_at IS NULL;

ALTER TABLE model_version
    ADD COLUMN card_revision integer NOT NULL DEFAULT 0,
    ADD COLUMN card_digest   text,
    ADD COLUMN promoted_by   text,
    ADD COLUMN promoted_at   timestamptz;
CREATE UNIQUE INDEX model_version_production_key ON model_version (model_id) WHERE lifecycle = 'production';

CREATE TABLE model_alias (
    model_id text    NOT NULL,
    alias    text    NOT NULL,
    version  integer NOT NULL,
    PRIMARY KEY (model_id, alias),
    FOREIGN KEY (model_id, version) REFERENCES model_version (model_id, version) ON DELETE CASCADE
);

-- The append-only history of a model's versions and aliases. The id of an entry is the id of its event.
CREATE TABLE model_history (
    id               text        PRIMARY KEY,
    seq              bigint      GENERATED ALWAYS AS IDENTITY,
    model_id         text        NOT NULL REFERENCES model (id) ON DELETE CASCADE,
    at               timestamptz NOT NULL,
    action           text        NOT NULL CHECK (action IN ('promoted', 'archived', 'unarchived', 'alias_set', 'alias_deleted')),
    version          integer     NOT NULL,
    previous_version integer,
    alias            text,
    actor            text        NOT NULL,
    note             text        NOT NULL
);
CREATE INDEX model_history_model_idx ON model_history (model_id, seq DESC);

CREATE TABLE model_card (
    model_id     text        NOT NULL,
    version      integer     NOT NULL,
    revision     integer     NOT NULL,
    content      text        NOT NULL,
    front_matter json,
    -- The byte offset at which the Markdown begins.
    body_at      integer     NOT NULL,
    digest       text        NOT NULL,
    author       text        NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (model_id, version, revision),
    FOREIGN KEY (model_id, version) REFERENCES model_version (model_id, version) ON DELETE CASCADE
);

CREATE INDEX revision_model_idx ON revision (model_id, model_version);

-- +goose Up
-- Environments. Tasksets are stored in the object store under separate keys; these tables contain only their digests
-- and counts.
CREATE TABLE environment (
    id                 text        PRIMARY KEY,
    name               text        NOT NULL,
    owner_id           text        NOT NULL,
    owner_name         text        NOT NULL,
    project_id         text        NOT NULL,
    project            text        NOT NULL,
    visibility         text        NOT NULL,
    visibility_version bigint      NOT NULL DEFAULT 0,
    description        text        NOT NULL,
    latest_version     text,
    created_at         timestamptz NOT NULL,
    -- When the environment was deleted. Applications that use it keep its digests.
    deleted_at         timestamptz
);
CREATE UNIQUE INDEX environment_name_key ON environment (project_id, name) WHERE deleted_at IS NULL;
CREATE INDEX environment_created_idx ON environment (created_at, id);
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON environment FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

CREATE TABLE environment_version (
    id             text        PRIMARY KEY,
    environment_id text        NOT NULL REFERENCES environment (id),
    version        text        NOT NULL,
    state          text        NOT NULL CHECK (state IN ('uploading', 'validating', 'ready', 'invalid', 'deprecated')),
    reason         text        NOT NULL DEFAULT '',
    digest         text        NOT NULL,
    manifest       json        NOT NULL,
    taskset_sha256 text        NOT NULL,
    -- Empty if the version has no package.
    package_sha256 text        NOT NULL,
    package_bytes  bigint      NOT NULL,
    creator_id     text        NOT NULL,
    created_at     timestamptz NOT NULL,
    ready_at       timestamptz,
    CONSTRAINT environment_version_key UNIQUE (environment_id, version)
);

CREATE TABLE rubric (
    id                 text        PRIMARY KEY,
    name               text        NOT NULL,
    owner_id           text        NOT NULL,
    owner_name         text        NOT NULL,
    project_id         text        NOT NULL,
    project            text        NOT NULL,
    visibility         text        NOT NULL,
    visibility_version bigint      NOT NULL DEFAULT 0,
    description        text        NOT NULL,
    -- The newest published version.
    current_version    integer,
    next_version       integer     NOT NULL DEFAULT 1,
    created_at         timestamptz NOT NULL,
    CONSTRAINT rubric_name_key UNIQUE (project_id, name)
);
CREATE INDEX rubric_created_idx ON rubric (created_at, id);
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON rubric FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

CREATE TABLE rubric_version (
    id           text        PRIMARY KEY,
    rubric_id    text        NOT NULL REFERENCES rubric (id),
    version      integer     NOT NULL,
    status       text        NOT NULL CHECK (status IN ('draft', 'published')),
    digest       text        NOT NULL,
    content      json        NOT NULL,
    created_at   timestamptz NOT NULL,
    published_at timestamptz,
    CONSTRAINT rubric_version_key UNIQUE (rubric_id, version),
    CONSTRAINT rubric_version_digest_key UNIQUE (rubric_id, digest)
);

-- Solutions. Each row is a manifest with the name and the version that the manifest states.
CREATE TABLE solution (
    id                 text        PRIMARY KEY,
    name               text        NOT NULL,
    version            text        NOT NULL,
    owner_id           text        NOT NULL,
    owner_name         text        NOT NULL,
    project_id         text        NOT NULL,
    project            text        NOT NULL,
    visibility         text        NOT NULL,
    visibility_version bigint      NOT NULL DEFAULT 0,
    digest             text        NOT NULL,
    manifest           json        NOT NULL,
    created_at         timestamptz NOT NULL,
    CONSTRAINT solution_version_key UNIQUE (project_id, name, version)
);
CREATE INDEX solution_created_idx ON solution (created_at, id);
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON solution FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

-- Applications of solutions. Only the owner and the visibility of a row ever change.
CREATE TABLE solution_application (
    id                 text        PRIMARY KEY,
    owner_id           text        NOT NULL,
    owner_name         text        NOT NULL,
    project_id         text        NOT NULL,
    project            text        NOT NULL,
    visibility         text        NOT NULL,
    visibility_version bigint      NOT NULL DEFAULT 0,
    solution           text        NOT NULL,
    digest             text        NOT NULL,
    snapshot           json        NOT NULL,
    -- The digests to which the bindings resolved, by binding name. Drift is measured against them.
    resolved           json        NOT NULL,
    created_at         timestamptz NOT NULL,
    CONSTRAINT solution_application_digest_key UNIQUE (project_id, digest)
);
CREATE INDEX solution_application_created_idx ON solution_application (created_at, id);
CREATE TRIGGER follow_project_visibility BEFORE INSERT ON solution_application FOR EACH ROW EXECUTE FUNCTION follow_project_visibility();

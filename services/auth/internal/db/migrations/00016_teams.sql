-- +goose Up
CREATE TABLE team (
    id         text PRIMARY KEY,
    key        text NOT NULL CONSTRAINT team_key_key UNIQUE CHECK (key ~ '^[a-z0-9-]{2,40}$'),
    name       text NOT NULL,
    created_at timestamptz NOT NULL
);

-- source is `hand` if an admin or a team lead added the member, and `oidc` if the groups of the OpenID provider did.
-- Sign-ins change only members with the source `oidc`.
CREATE TABLE team_member (
    team_id    text NOT NULL REFERENCES team (id) ON DELETE CASCADE,
    account_id text NOT NULL REFERENCES account (id),
    role       text NOT NULL CHECK (role IN ('member', 'lead')),
    source     text NOT NULL DEFAULT 'hand' CHECK (source IN ('hand', 'oidc')),
    PRIMARY KEY (account_id, team_id)
);
CREATE INDEX team_member_team_idx ON team_member (team_id);

ALTER TABLE project
    ADD COLUMN description text,
    ADD COLUMN team_id     text REFERENCES team (id),
    ADD COLUMN archived_at timestamptz;
CREATE INDEX project_team_idx ON project (team_id) WHERE team_id IS NOT NULL;
CREATE INDEX membership_project_idx ON membership (project_id);

-- +goose Up
ALTER TABLE account
    ADD COLUMN display_name       text CHECK (length(display_name) BETWEEN 1 AND 128),
    ADD COLUMN locale             text CHECK (length(locale) <= 64),
    ADD COLUMN tz                 text CHECK (length(tz) <= 64),
    ADD COLUMN theme              text CHECK (theme IN ('light', 'dark', 'system')),
    ADD COLUMN default_project_id text REFERENCES project (id) ON DELETE SET NULL,
    -- Whom all that the account owns is being given to; null when that is done or was never begun.
    ADD COLUMN transfer_to_id     text REFERENCES account (id);

-- Nobody is taken for somebody else because of a capital letter. Signing in stays exact.
CREATE UNIQUE INDEX account_username_lower_key ON account (lower(username));
-- For the last sign-in of each account; the other index is of sessions that live.
CREATE INDEX session_account_created_idx ON session (account_id, created_at);

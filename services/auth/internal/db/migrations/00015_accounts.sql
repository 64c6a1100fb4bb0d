-- +goose Up
ALTER TABLE account
    ADD COLUMN display_name       text CHECK (length(display_name) BETWEEN 1 AND 128),
    ADD COLUMN locale             text CHECK (length(locale) <= 64),
    ADD COLUMN tz                 text CHECK (length(tz) <= 64),
    ADD COLUMN theme              text CHECK (theme IN ('light', 'dark', 'system')),
    ADD COLUMN default_project_id text REFERENCES project (id) ON DELETE SET NULL,
    -- The account that receives the objects of this account; null if no transfer is pending.
    ADD COLUMN transfer_to_id     text REFERENCES account (id);

-- Usernames that differ only in case are not allowed. Sign-in still distinguishes upper and lower case.
CREATE UNIQUE INDEX account_username_lower_key ON account (lower(username));
-- Finds the last sign-in of an account. session_account_idx does not contain revoked sessions.
CREATE INDEX session_account_created_idx ON session (account_id, created_at);

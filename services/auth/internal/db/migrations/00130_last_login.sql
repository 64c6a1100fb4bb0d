-- +goose Up
-- When the newest of the account's deleted sessions was opened. The stored sessions have their own times.
ALTER TABLE account ADD COLUMN last_login_at timestamptz;

-- +goose Up
-- What the sweep of ended sessions and refresh tokens looks for.
CREATE INDEX session_expires_idx ON session (expires_at);
CREATE INDEX refresh_token_expires_idx ON refresh_token (expires_at);

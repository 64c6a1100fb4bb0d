-- +goose Up
-- These indexes find expired sessions and refresh tokens, which are deleted regularly.
CREATE INDEX session_expires_idx ON session (expires_at);
CREATE INDEX refresh_token_expires_idx ON refresh_token (expires_at);

-- +goose Up
-- Frame counts of WebSockets, and more outcomes: calls that were cut by a suspension, and WebSockets that neither
-- side closed.
ALTER TABLE call
    ADD COLUMN request_frames  bigint,
    ADD COLUMN response_frames bigint,
    DROP CONSTRAINT call_outcome_check,
    ADD CONSTRAINT call_outcome_check CHECK (outcome IN ('ok', 'client_closed', 'engine_error', 'engine_unreachable', 'engine_timeout',
        'upstream_truncated', 'revoked', 'lease_over', 'suspended', 'client_error', 'idle', 'draining'));
-- Finds a call by its request id.
CREATE INDEX call_request_idx ON call (deployment_id, request_id);

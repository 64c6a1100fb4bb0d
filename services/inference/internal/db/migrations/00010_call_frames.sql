-- +goose Up
-- Frame counts of WebSockets, and further outcomes: a suspension that cuts calls, and the ends of a
-- WebSocket that neither side initiated.
ALTER TABLE call
    ADD COLUMN request_frames  bigint,
    ADD COLUMN response_frames bigint,
    DROP CONSTRAINT call_outcome_check,
    ADD CONSTRAINT call_outcome_check CHECK (outcome IN ('ok', 'client_closed', 'engine_error', 'engine_unreachable', 'engine_timeout',
        'upstream_truncated', 'revoked', 'lease_over', 'suspended', 'client_error', 'idle', 'draining'));
-- Finds a call by its request id.
CREATE INDEX call_request_idx ON call (deployment_id, request_id);

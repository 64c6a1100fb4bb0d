-- +goose Up
-- WebSockets count their frames; a call may end by a suspension, and a WebSocket by what neither side wanted.
ALTER TABLE call
    ADD COLUMN request_frames  bigint,
    ADD COLUMN response_frames bigint,
    DROP CONSTRAINT call_outcome_check,
    ADD CONSTRAINT call_outcome_check CHECK (outcome IN ('ok', 'client_closed', 'engine_error', 'engine_unreachable', 'engine_timeout',
        'upstream_truncated', 'revoked', 'lease_over', 'suspended', 'client_error', 'idle', 'draining'));
-- One call by its id.
CREATE INDEX call_request_idx ON call (deployment_id, request_id);

-- +goose Up
-- hold is the admin's order for the node. It is independent of the node's liveness (state), so that it still applies
-- after the node was lost and has returned.
ALTER TABLE node
    ADD COLUMN hold           text        NOT NULL DEFAULT '' CHECK (hold IN ('', 'cordoned', 'draining', 'drained')),
    ADD COLUMN hold_reason    text        NOT NULL DEFAULT '',
    ADD COLUMN drain_mode     text        NOT NULL DEFAULT '' CHECK (drain_mode IN ('', 'wait', 'checkpoint', 'kill')),
    ADD COLUMN drain_deadline timestamptz,
    ADD CONSTRAINT node_drain CHECK ((hold IN ('draining', 'drained')) = (drain_mode <> ''));
CREATE INDEX node_draining ON node (id) WHERE hold = 'draining';

ALTER TABLE join_token ADD COLUMN revoked_at timestamptz;
CREATE INDEX join_token_fleet ON join_token (fleet_id, created_at DESC, id DESC);

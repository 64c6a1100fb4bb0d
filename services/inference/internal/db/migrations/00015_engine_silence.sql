-- +goose Up
-- The engines from which calls get no byte, so that all replicas of inference decide together whether one hangs. A row
-- is one start of an engine's process: of an execution (replica_id), which has another address after each start. Any
-- replica that gets a byte deletes the row.
CREATE TABLE engine_silence (
    replica_id    text NOT NULL,
    address       text NOT NULL,
    revision_id   text NOT NULL,
    suspected_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    failed_probes integer NOT NULL DEFAULT 0,
    -- The process that probes the engine, until this time.
    prober        text NOT NULL DEFAULT '',
    probing_until timestamptz,
    PRIMARY KEY (replica_id, address)
);

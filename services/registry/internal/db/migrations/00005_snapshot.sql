-- +goose Up
-- A single row with the number of the last change to the data that inference serves from. The row lock orders these
-- changes, so that epochs increase in commit order.
CREATE TABLE snapshot_epoch (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch bigint  NOT NULL
);
INSERT INTO snapshot_epoch (epoch) VALUES (1);

-- The inference replicas. A row has the epoch that the replica has applied and the time, by Postgres's clock, until
-- which the replica may serve.
CREATE TABLE inference_replica (
    replica_id  text        PRIMARY KEY,
    acked_epoch bigint      NOT NULL,
    lease_until timestamptz NOT NULL
);
CREATE INDEX inference_replica_lease_idx ON inference_replica (lease_until);

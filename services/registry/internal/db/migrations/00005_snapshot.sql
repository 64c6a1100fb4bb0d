-- +goose Up
-- One row: the number of the last change of anything that inference serves by. Its lock orders these
-- changes, so that epochs rise in the order of the commits.
CREATE TABLE snapshot_epoch (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch bigint  NOT NULL
);
INSERT INTO snapshot_epoch (epoch) VALUES (1);

-- The replicas of inference: what each has in force, and until when it may serve. Postgres' clock.
CREATE TABLE inference_replica (
    replica_id  text        PRIMARY KEY,
    acked_epoch bigint      NOT NULL,
    lease_until timestamptz NOT NULL
);
CREATE INDEX inference_replica_lease_idx ON inference_replica (lease_until);

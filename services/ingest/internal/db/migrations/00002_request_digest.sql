-- +goose Up
-- The digest of each numbered request's body. A reused number with another body is rejected. A request that was
-- stored before this table existed has no row here: its number counts as a repeat, with any body.
CREATE TABLE request_digest (
    run_id text NOT NULL,
    stream text NOT NULL,
    writer text NOT NULL,
    seq    bigint NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (run_id, stream, writer, seq)
);

-- +goose Down
DROP TABLE request_digest;

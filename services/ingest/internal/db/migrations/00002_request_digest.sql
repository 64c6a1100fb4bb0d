-- +goose Up
-- The digest of the body of each numbered request. A request that reuses a number with another body is rejected. A
-- request that was stored before this table existed has no row here, so its number can be repeated with any body.
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

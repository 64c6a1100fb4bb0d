-- +goose Up
-- What each numbered request said: its number again with another body is refused. A request that was
-- stored before this table has no row here, and is a repeat whatever it says.
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

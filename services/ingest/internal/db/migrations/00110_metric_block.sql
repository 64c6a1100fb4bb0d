-- +goose Up
-- The points of rows of metric_batch that were moved into blocks. A segment replaces the rows from first_seq to last_seq;
-- the column rows holds what is needed to make them again, except the points.
CREATE TABLE metric_segment (
    run_id    text   NOT NULL,
    first_seq bigint NOT NULL,
    last_seq  bigint NOT NULL,
    rows      bytea  NOT NULL,
    PRIMARY KEY (run_id, last_seq)
);
-- The points of one key and attempt of a segment, or a part of them, sorted by step. data holds all points, whole a
-- summary of the last reports of each step, and pieces summaries of parts of them. The ranges of steps and times and the number of points are those of the
-- last reports, the range of indexes is that of all points. An index counts the points of the segment in the order of the
-- reports.
CREATE TABLE metric_block (
    run_id     text   NOT NULL,
    first_seq  bigint NOT NULL,
    key        int    NOT NULL,
    part       int    NOT NULL,
    attempt    int    NOT NULL,
    low_step   bigint NOT NULL,
    high_step  bigint NOT NULL,
    low_time   bigint NOT NULL,
    high_time  bigint NOT NULL,
    low_index  int    NOT NULL,
    high_index int    NOT NULL,
    points     int    NOT NULL,
    whole      bytea  NOT NULL,
    pieces     bytea  NOT NULL,
    data       bytea  NOT NULL,
    PRIMARY KEY (run_id, first_seq, key, part)
);
CREATE INDEX metric_block_step_idx ON metric_block (run_id, key, low_step);
-- Summaries must be readable without the points, so the points are always stored apart, as they are.
ALTER TABLE metric_block ALTER COLUMN data SET STORAGE EXTERNAL;

-- The runs that may have rows to move, and when each is examined next.
CREATE TABLE metric_hot (
    run_id text        PRIMARY KEY,
    due    timestamptz NOT NULL
);
CREATE INDEX metric_hot_due_idx ON metric_hot (due);
INSERT INTO metric_hot (run_id, due) SELECT id, now() FROM run WHERE batch_seq > 0 AND expired_at IS NULL;

-- +goose Down
DROP TABLE metric_hot, metric_block, metric_segment;

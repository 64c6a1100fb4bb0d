-- +goose Up
-- Summaries of the points of a key in consecutive segments, from first_seq to last_seq, so that a chart of many blocks need
-- not read each of them. The row of level 0 holds a summary of all points. Each other level L, from least to most, holds
-- summaries of the intervals of steps that begin at multiples of 2^L. An attempt of 0 means that the blocks cannot be
-- summarized together, because their steps overlap or because they belong to several attempts.
CREATE TABLE metric_summary (
    run_id    text     NOT NULL,
    level     int      NOT NULL,
    key       int      NOT NULL,
    first_seq bigint   NOT NULL,
    last_seq  bigint   NOT NULL,
    attempt   int      NOT NULL,
    low_step  bigint   NOT NULL,
    high_step bigint   NOT NULL,
    points    bigint   NOT NULL,
    least     int      NOT NULL,
    most      int      NOT NULL,
    data      bytea    NOT NULL,
    PRIMARY KEY (run_id, level, key, first_seq)
);
-- Most values are floats, which compression makes slower but hardly smaller.
ALTER TABLE metric_summary ALTER COLUMN data SET STORAGE EXTERNAL;

-- +goose Down
DROP TABLE metric_summary;

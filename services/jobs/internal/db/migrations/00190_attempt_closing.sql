-- +goose Up
-- closing: the decided end of an attempt whose run is not closed yet, as JSON. collected: whether all output and reports
-- were delivered before the end; NULL before the end. heard_signal: the newest signal that the training has received.
ALTER TABLE attempt
    ADD COLUMN closing jsonb,
    ADD COLUMN collected boolean,
    ADD COLUMN heard_signal text NOT NULL DEFAULT '';
-- Whether the output and the reports of the last attempt were delivered before the job ended; NULL before the end.
ALTER TABLE job ADD COLUMN collected boolean;
-- Whether the node has given up the delivery of the output or of the reports.
ALTER TABLE work ADD COLUMN uncollected boolean NOT NULL DEFAULT false;
-- The decided end of a run without a job that is not closed yet, as JSON.
ALTER TABLE run ADD COLUMN closing jsonb;

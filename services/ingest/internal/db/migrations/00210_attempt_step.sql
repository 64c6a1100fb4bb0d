-- +goose Up
-- What each attempt of a run, except the first, has reported of the run's steps. An attempt without a row has reported no
-- step, and hides nothing of older attempts.
CREATE TABLE attempt_step (
    run_id      text   NOT NULL,
    attempt     int    NOT NULL,
    -- The lowest step of a metric or a validation round that the attempt has reported.
    low_step    bigint NOT NULL,
    -- The step of the checkpoint with which the platform started the attempt; null if there was none, or if the
    -- checkpoint has no step.
    resume_step bigint,
    PRIMARY KEY (run_id, attempt)
);
-- The lowest step of older attempts that an attempt hides. The points of older attempts up to the step at which an attempt
-- resumed stay visible: up to that of its checkpoint, or else up to the step before the lowest one that it has reported.
CREATE VIEW attempt_bound AS SELECT run_id, attempt,
    CASE WHEN resume_step IS NULL THEN low_step WHEN resume_step < 9223372036854775807 THEN resume_step + 1 END AS hidden_from
    FROM attempt_step;

-- The lowest step of a row of metric_batch, which contains the version, the number of points, the keys, and the differences
-- of the steps: numbers of 7 bits a byte, the lowest bits first, and the differences with their sign in the lowest bit.
-- +goose StatementBegin
CREATE FUNCTION lowest_step(data bytea) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SET search_path = ingest, pg_temp AS $$
DECLARE
    at     int := 1;
    points bigint := -1;
    left_over bigint := 1;
    bits   int;
    part   int;
    value  bigint;
    step   numeric := 0;
    lowest numeric;
BEGIN
    -- The first number is the number of points; then there is a key and a difference for each of them.
    WHILE left_over > 0 LOOP
        value := 0;
        bits := 0;
        LOOP
            part := get_byte(data, at);
            at := at + 1;
            value := value | ((part & 127)::bigint << bits);
            bits := bits + 7;
            EXIT WHEN part < 128;
        END LOOP;
        IF points < 0 THEN
            points := value;
            left_over := 2 * points;
            CONTINUE;
        END IF;
        left_over := left_over - 1;
        IF left_over < points THEN
            step := step + (((value >> 1) & 9223372036854775807) # -(value & 1));
            IF step > 9223372036854775807 THEN
                step := step - 18446744073709551616;
            ELSIF step < -9223372036854775808 THEN
                step := step + 18446744073709551616;
            END IF;
            lowest := least(lowest, step);
        END IF;
    END LOOP;
    RETURN lowest;
END $$;
-- +goose StatementEnd

INSERT INTO attempt_step (run_id, attempt, low_step)
    SELECT run_id, attempt, min(step) FROM (
        SELECT run_id, attempt, lowest_step(data) AS step FROM metric_batch WHERE attempt > 1
        UNION ALL SELECT run_id, attempt, low_step FROM metric_block WHERE attempt > 1
        UNION ALL SELECT run_id, attempt, step FROM validation_round WHERE attempt > 1
    ) reported WHERE step IS NOT NULL GROUP BY run_id, attempt;
-- This migration has created the function, and nothing else uses it.
-- squawk-ignore ban-drop-function
DROP FUNCTION lowest_step;

-- +goose Down
DROP VIEW attempt_bound;
DROP TABLE attempt_step;

-- +goose Up
-- The rank of the process that reported is part of what identifies a report. Each rank has metric keys with ids of their
-- own. Runs that reported several ranks before this column existed have them mixed, as rank 0.
ALTER TABLE metric_key ADD COLUMN rank int NOT NULL DEFAULT 0;

-- Rounds, chunks and samples of rank 0 are in the tables validation_round, validation_chunk and sample, whose primary keys
-- have no rank. Those of other ranks are in the tables below.
ALTER TABLE validation_round ADD COLUMN rank int NOT NULL DEFAULT 0;
ALTER TABLE validation_chunk ADD COLUMN rank int NOT NULL DEFAULT 0;
ALTER TABLE sample ADD COLUMN rank int NOT NULL DEFAULT 0;
CREATE TABLE rank_validation_round (
    run_id       text NOT NULL,
    attempt      int NOT NULL,
    rank         int NOT NULL CHECK (rank > 0),
    step         bigint NOT NULL,
    total_chunks int NOT NULL,
    avg_reward   double precision,
    accuracy     double precision,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (run_id, attempt, rank, step)
);
CREATE TABLE rank_validation_chunk (
    run_id      text NOT NULL,
    attempt     int NOT NULL,
    rank        int NOT NULL CHECK (rank > 0),
    step        bigint NOT NULL,
    chunk_index int NOT NULL,
    samples     int NOT NULL,
    rewarded    int,
    reward_sum  double precision,
    PRIMARY KEY (run_id, attempt, rank, step, chunk_index)
);
CREATE TABLE rank_sample (
    run_id      text NOT NULL,
    attempt     int NOT NULL,
    rank        int NOT NULL CHECK (rank > 0),
    step        bigint NOT NULL,
    chunk_index int NOT NULL,
    index       int NOT NULL,
    user_text   text,
    assistant   text,
    env         text,
    reward      double precision,
    extra       text,
    prompt      bytea,
    PRIMARY KEY (run_id, attempt, rank, step, chunk_index, index)
);
CREATE INDEX rank_sample_prompt_idx ON rank_sample (run_id, prompt, step, attempt, rank, chunk_index, index) WHERE prompt IS NOT NULL;
CREATE VIEW every_validation_round AS
    SELECT run_id, attempt, rank, step, total_chunks, avg_reward, accuracy, created_at FROM validation_round
    UNION ALL SELECT run_id, attempt, rank, step, total_chunks, avg_reward, accuracy, created_at FROM rank_validation_round;
CREATE VIEW every_validation_chunk AS
    SELECT run_id, attempt, rank, step, chunk_index, samples, rewarded, reward_sum FROM validation_chunk
    UNION ALL SELECT run_id, attempt, rank, step, chunk_index, samples, rewarded, reward_sum FROM rank_validation_chunk;
CREATE VIEW every_sample AS
    SELECT run_id, attempt, rank, step, chunk_index, index, user_text, assistant, env, reward, extra, prompt FROM sample
    UNION ALL SELECT run_id, attempt, rank, step, chunk_index, index, user_text, assistant, env, reward, extra, prompt FROM rank_sample;

-- The hyperparameters of other ranks than 0.
CREATE TABLE rank_hparam (
    run_id     text NOT NULL,
    rank       int NOT NULL CHECK (rank > 0),
    key        bytea NOT NULL,
    value      text NOT NULL,
    attempt    int NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, rank, key)
);
CREATE VIEW every_hparam AS SELECT run_id, 0 AS rank, key, value, attempt, updated_at FROM hparam
    UNION ALL SELECT run_id, rank, key, value, attempt, updated_at FROM rank_hparam;
-- What readers see without a rank: of each hyperparameter the value of the lowest rank that reported it.
CREATE VIEW shown_hparam AS SELECT DISTINCT ON (run_id, key) run_id, rank, key, value, attempt, updated_at FROM every_hparam
    ORDER BY run_id, key, rank;

-- The rank that reported a rollout or a score. Of a rollout that several ranks of an attempt report, that of the lowest rank
-- stays.
ALTER TABLE rollout ADD COLUMN rank int NOT NULL DEFAULT 0;
ALTER TABLE benchmark_score ADD COLUMN rank int NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE benchmark_score DROP COLUMN rank;
ALTER TABLE rollout DROP COLUMN rank;
DROP VIEW shown_hparam, every_hparam;
DROP TABLE rank_hparam;
DROP VIEW every_sample, every_validation_chunk, every_validation_round;
DROP TABLE rank_sample, rank_validation_chunk, rank_validation_round;
ALTER TABLE sample DROP COLUMN rank;
ALTER TABLE validation_chunk DROP COLUMN rank;
ALTER TABLE validation_round DROP COLUMN rank;
ALTER TABLE metric_key DROP COLUMN rank;

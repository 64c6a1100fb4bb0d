-- +goose Up
-- Whether the rank of a row is known. Rows of versions that knew no ranks have rank 0, whichever rank reported them. Readers
-- who select no rank see them with those of the lowest rank that is known.
ALTER TABLE validation_round ADD COLUMN ranked boolean NOT NULL DEFAULT false;
ALTER TABLE rank_validation_round ADD COLUMN ranked boolean NOT NULL DEFAULT true;
ALTER TABLE hparam ADD COLUMN ranked boolean NOT NULL DEFAULT false;
ALTER TABLE benchmark_score ADD COLUMN ranked boolean NOT NULL DEFAULT false;
ALTER TABLE rollout ADD COLUMN ranked boolean NOT NULL DEFAULT false;
CREATE OR REPLACE VIEW every_validation_round AS
    SELECT run_id, attempt, rank, step, total_chunks, avg_reward, accuracy, created_at, ranked FROM validation_round
    UNION ALL SELECT run_id, attempt, rank, step, total_chunks, avg_reward, accuracy, created_at, ranked FROM rank_validation_round;
CREATE OR REPLACE VIEW every_hparam AS SELECT run_id, 0 AS rank, key, value, attempt, updated_at, ranked FROM hparam
    UNION ALL SELECT run_id, rank, key, value, attempt, updated_at, true FROM rank_hparam;
-- What readers see without a rank: of each hyperparameter the value of the lowest known rank, or else that of an unknown one.
CREATE OR REPLACE VIEW shown_hparam AS SELECT DISTINCT ON (run_id, key) run_id, rank, key, value, attempt, updated_at FROM every_hparam
    ORDER BY run_id, key, ranked DESC, rank;

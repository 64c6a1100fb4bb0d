-- +goose Up
-- The previous version knew ranks. It stored which rank reported a row, but not that this is known. Its rows of rank 0 are
-- those of rank 0 in each run if it also stored something of another rank of the run. The runs are locked in the order in
-- which reports lock them.
-- migration-lint: few runs have reports of several ranks, and the statement locks no table.
WITH ranked_run AS MATERIALIZED (
    SELECT id FROM run WHERE id IN (
        SELECT run_id FROM metric_key WHERE rank > 0
        UNION SELECT run_id FROM rank_validation_round
        UNION SELECT run_id FROM rank_hparam
        UNION SELECT run_id FROM benchmark_score WHERE rank > 0
        UNION SELECT run_id FROM rollout WHERE rank > 0
    ) ORDER BY id FOR NO KEY UPDATE
), keys AS (
    -- The keys of other ranks keep their origin: replicas of the previous version may add keys of rank 0 meanwhile, and
    -- these keys show that its rank is known.
    UPDATE metric_key SET origin = 'own' WHERE rank = 0 AND run_id IN (SELECT id FROM ranked_run)
), rounds AS (
    UPDATE validation_round SET ranked = true WHERE run_id IN (SELECT id FROM ranked_run)
), params AS (
    UPDATE hparam SET ranked = true WHERE run_id IN (SELECT id FROM ranked_run)
), scores AS (
    UPDATE benchmark_score SET ranked = true WHERE run_id IN (SELECT id FROM ranked_run)
)
UPDATE rollout SET ranked = true WHERE run_id IN (SELECT id FROM ranked_run);

-- +goose Down
SELECT 1;

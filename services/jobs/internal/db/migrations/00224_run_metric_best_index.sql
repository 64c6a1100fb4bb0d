-- +goose NO TRANSACTION
-- +goose Up
-- For searches of runs by the best value of a metric.
CREATE INDEX CONCURRENTLY IF NOT EXISTS run_metric_best ON run_metric (key, best, run_id) WHERE best IS NOT NULL;

-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY IF NOT EXISTS sample_prompt_idx ON sample (run_id, prompt, step, attempt, chunk_index, index) WHERE prompt IS NOT NULL;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS sample_prompt_idx;

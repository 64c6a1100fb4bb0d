-- +goose Up
-- The first 16 bytes of the SHA-256 of user_text; null without one, and for samples that are older than this column.
ALTER TABLE sample ADD COLUMN prompt bytea;
-- The number of samples of the chunk that have a finite reward, and the sum of these rewards; null for chunks that are
-- older than these columns.
ALTER TABLE validation_chunk ADD COLUMN rewarded int, ADD COLUMN reward_sum double precision;

-- +goose Down
ALTER TABLE validation_chunk DROP COLUMN rewarded, DROP COLUMN reward_sum;
ALTER TABLE sample DROP COLUMN prompt;

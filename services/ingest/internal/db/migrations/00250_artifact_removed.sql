-- +goose Up
-- A checkpoint that its job does not keep is removed first, while its object stays. Afterwards it is either kept for ever,
-- because a model was registered from it or a job resumes from it, or its object is deleted.
-- removed_at: when the checkpoint was removed; null if it was not. kept_at: when it was found to be in use and restored; it is
-- not removed again. released_at: from then on the row does not refer to its object. freed_at: the object is deleted, and
-- run.artifact_bytes does not contain its size.
-- best_value: the value of the metric whose best checkpoint the job keeps. NaN: the metric has no value for the checkpoint.
-- Null: the metric was not read yet.
ALTER TABLE artifact
    ADD COLUMN removed_at  timestamptz,
    ADD COLUMN kept_at     timestamptz,
    ADD COLUMN released_at timestamptz,
    ADD COLUMN freed_at    timestamptz,
    ADD COLUMN best_value  double precision;

-- +goose Down
ALTER TABLE artifact DROP COLUMN removed_at, DROP COLUMN kept_at, DROP COLUMN released_at, DROP COLUMN freed_at, DROP COLUMN best_value;

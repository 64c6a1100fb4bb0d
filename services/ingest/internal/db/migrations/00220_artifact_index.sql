-- +goose NO TRANSACTION
-- +goose Up
-- For the list of all files of a run: its order, the artifacts whose paths could be the same on a computer that ignores
-- case, and whether the run is protected. The collation of the ids differs from that of the primary key, so that no query
-- plan looks for the ids of one run among those of all others. An entry of an index has room for at most 512 characters.
CREATE INDEX CONCURRENTLY IF NOT EXISTS artifact_id_idx ON artifact (run_id, id COLLATE "C");
CREATE INDEX CONCURRENTLY IF NOT EXISTS artifact_name_idx ON artifact
    (run_id, (kind || '/' || coalesce(step::text, '') || '/' || left(lower(name COLLATE "C"), 512))) WHERE name IS NOT NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS artifact_withheld_idx ON artifact (run_id) WHERE withheld;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS artifact_withheld_idx;
DROP INDEX CONCURRENTLY IF EXISTS artifact_name_idx;
DROP INDEX CONCURRENTLY IF EXISTS artifact_id_idx;

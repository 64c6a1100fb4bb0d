-- +goose Up
-- The compactor examines the runs that have blocks once more, to summarize them.
INSERT INTO metric_hot (run_id, due) SELECT DISTINCT s.run_id, now() FROM metric_segment s JOIN run r ON r.id = s.run_id
    WHERE r.expired_at IS NULL ON CONFLICT DO NOTHING;

-- +goose Down
SELECT 1;

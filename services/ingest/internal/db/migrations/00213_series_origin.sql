-- +goose Up
-- Which rank the points of a series are of. 'before': the series was added by a version that knew no ranks, and no rank has
-- reported its key since; it has rank 0. 'taken': such a series, which the lowest rank that has reported its key since
-- continues; it has this rank. 'own': all points are of the rank.
ALTER TABLE metric_key ADD COLUMN origin text NOT NULL DEFAULT 'before';
-- How often ranks have taken series of the run. A replica whose keys have another number loads them again.
ALTER TABLE run ADD COLUMN key_moves int NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE run DROP COLUMN key_moves;
ALTER TABLE metric_key DROP COLUMN origin;

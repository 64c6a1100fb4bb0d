-- +goose Up
-- The settings of pools. A pool without a row has the defaults. The pools themselves are those of the fleets.
CREATE TABLE pool (
    name      text PRIMARY KEY,
    isolation text NOT NULL DEFAULT 'required' CHECK (isolation IN ('required', 'none'))
);

-- What the node's agent reports about the isolation of works; null until its first report.
ALTER TABLE node ADD COLUMN boundary jsonb;

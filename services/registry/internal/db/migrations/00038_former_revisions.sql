-- +goose Up
-- The revisions to which rollbacks return, the latest last. A promotion adds the revision that was promoted before; a
-- rollback removes the revision that it promotes and those after it. The last one is previous_revision_id, unless a
-- version without this column has promoted a revision since.
ALTER TABLE deployment ADD COLUMN former_revision_ids text[] NOT NULL DEFAULT '{}';

-- +goose Up
-- What the agent of a Slurm fleet reports about its cluster, as JSON; NULL before its first report and for other nodes.
ALTER TABLE node ADD COLUMN slurm jsonb;
-- How jobs of the pool run on a Slurm cluster, as JSON; NULL until an admin sets it.
ALTER TABLE pool ADD COLUMN slurm jsonb;
-- batch: the work is a whole attempt that a batch system runs. batch_id is its id there, batch_reason and batch_detail are
-- why it waits there, and batch_nodes are the host names of its nodes by rank, NULL before its start.
ALTER TABLE work
    ADD COLUMN batch boolean NOT NULL DEFAULT false,
    ADD COLUMN batch_id text NOT NULL DEFAULT '',
    ADD COLUMN batch_reason text NOT NULL DEFAULT '',
    ADD COLUMN batch_detail text NOT NULL DEFAULT '',
    ADD COLUMN batch_nodes text[];
ALTER TABLE attempt
    ADD COLUMN batch_id text NOT NULL DEFAULT '',
    ADD COLUMN batch_nodes text[];
-- Whether the job is scheduled, but a batch system has not started it yet.
ALTER TABLE job ADD COLUMN batch_held boolean NOT NULL DEFAULT false;

-- +goose Up
-- protected_datasets: the ids of the protected datasets that the run reads, itself or through its model.
ALTER TABLE run ADD COLUMN protected_datasets text[] NOT NULL DEFAULT '{}';
-- disclosure: the metrics, hyperparameters and formats that the recipe of a protected run declares. NULL declares nothing.
ALTER TABLE run ADD COLUMN disclosure jsonb;
-- protected: the run of the job is protected, so messages of its processes are withheld.
ALTER TABLE job ADD COLUMN protected boolean NOT NULL DEFAULT false;
-- migration-lint: it changes only the jobs of protected runs, which are few.
UPDATE job SET protected = true FROM run WHERE run.id = job.run_id AND run.protected;

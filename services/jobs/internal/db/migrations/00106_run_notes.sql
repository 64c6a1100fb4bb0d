-- +goose Up
-- labels: those of the run's job, which the run keeps when the job is deleted; NULL in a run that is older than the
-- column and whose labels were not copied yet. version: the number of changes of the name, the tags, the notes and of
-- archived_at.
ALTER TABLE run
    ADD COLUMN tags text[] NOT NULL DEFAULT '{}',
    ADD COLUMN labels jsonb,
    ADD COLUMN notes_version integer NOT NULL DEFAULT 0,
    ADD COLUMN archived_at timestamptz,
    ADD COLUMN version bigint NOT NULL DEFAULT 1;

-- The newest versions of the notes of each run. They are deleted together with the run.
CREATE TABLE run_note (
    run_id     text        NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    version    integer     NOT NULL CHECK (version > 0),
    text       text        NOT NULL,
    author_id  text        NOT NULL,
    author     text        NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, version)
);

-- Replicas of the previous version write jobs and runs too, so triggers copy the labels.
-- +goose StatementBegin
CREATE FUNCTION take_job_labels() RETURNS trigger
LANGUAGE plpgsql SET search_path = jobs, pg_temp AS $$
BEGIN
    NEW.labels := coalesce(NEW.labels, (SELECT labels FROM job WHERE id = NEW.job_id), '{}');
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER take_job_labels BEFORE INSERT ON run FOR EACH ROW EXECUTE FUNCTION take_job_labels();

-- +goose StatementBegin
CREATE FUNCTION give_job_labels() RETURNS trigger
LANGUAGE plpgsql SET search_path = jobs, pg_temp AS $$
BEGIN
    UPDATE run SET labels = NEW.labels WHERE id = NEW.run_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER give_job_labels AFTER UPDATE OF labels ON job FOR EACH ROW
    WHEN (OLD.labels IS DISTINCT FROM NEW.labels) EXECUTE FUNCTION give_job_labels();

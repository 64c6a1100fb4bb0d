-- +goose Up
-- The changes of jobs that GET /api/jobs/stream sends. A change gets its position (seq) after it was committed, because
-- transactions may commit in another order than that of their ids.
CREATE TABLE job_change (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq    bigint      CONSTRAINT job_change_seq UNIQUE,
    job_id text        NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    -- What the filters and the visibility of a list depend on; before is null for a new job, after for a deleted one.
    before jsonb,
    after  jsonb
);
CREATE INDEX job_change_pending ON job_change (id) WHERE seq IS NULL;
CREATE INDEX job_change_job ON job_change (job_id, id);
CREATE INDEX job_change_at ON job_change (at);

-- last is the newest position. The changes up to the position oldest may have been deleted.
CREATE TABLE job_feed (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    last   bigint  NOT NULL,
    oldest bigint  NOT NULL
);
INSERT INTO job_feed (last, oldest) VALUES (0, 0);

-- +goose StatementBegin
CREATE FUNCTION record_job_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = jobs, pg_temp AS $$
DECLARE
    old_facts jsonb;
    new_facts jsonb;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        old_facts := jsonb_build_object('id', OLD.id, 'run_id', OLD.run_id, 'name', OLD.name, 'owner_id', OLD.owner_id,
            'owner_name', OLD.owner_name, 'project_id', OLD.project_id, 'project', OLD.project,
            'visibility', OLD.visibility, 'labels', OLD.labels, 'state', OLD.state);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        new_facts := jsonb_build_object('id', NEW.id, 'run_id', NEW.run_id, 'name', NEW.name, 'owner_id', NEW.owner_id,
            'owner_name', NEW.owner_name, 'project_id', NEW.project_id, 'project', NEW.project,
            'visibility', NEW.visibility, 'labels', NEW.labels, 'state', NEW.state);
    END IF;
    INSERT INTO job_change (job_id, before, after) VALUES (coalesce(new_facts ->> 'id', old_facts ->> 'id'), old_facts, new_facts);
    PERFORM pg_notify('jobs_wake', 'jobs');
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER record_new_job AFTER INSERT ON job FOR EACH ROW EXECUTE FUNCTION record_job_change();
CREATE TRIGGER record_deleted_job AFTER DELETE ON job FOR EACH ROW EXECUTE FUNCTION record_job_change();
-- Not every column: a scheduler pass renumbers the positions of up to a thousand queued jobs.
CREATE TRIGGER record_changed_job AFTER UPDATE ON job FOR EACH ROW
    WHEN ((OLD.seq, OLD.name, OLD.owner_id, OLD.owner_name, OLD.project_id, OLD.project, OLD.visibility, OLD.labels,
        OLD.state, OLD.queue_reason, OLD.queue_detail) IS DISTINCT FROM (NEW.seq, NEW.name, NEW.owner_id,
        NEW.owner_name, NEW.project_id, NEW.project, NEW.visibility, NEW.labels, NEW.state, NEW.queue_reason,
        NEW.queue_detail))
    EXECUTE FUNCTION record_job_change();

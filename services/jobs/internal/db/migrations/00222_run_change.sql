-- +goose Up
-- The changes of runs that GET /api/runs/stream sends, in the form of job_change and job_feed.
CREATE TABLE run_change (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq    bigint      CONSTRAINT run_change_seq UNIQUE,
    run_id text        NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    before jsonb,
    after  jsonb
);
CREATE INDEX run_change_pending ON run_change (id) WHERE seq IS NULL;
CREATE INDEX run_change_run ON run_change (run_id, id);
CREATE INDEX run_change_at ON run_change (at);

CREATE TABLE run_feed (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    last   bigint  NOT NULL,
    oldest bigint  NOT NULL
);
INSERT INTO run_feed (last, oldest) VALUES (0, 0);

-- run_facts returns what the filters and the visibility of a list of runs depend on. It has no search_path of its own, so
-- that Postgres can inline it; the function that calls it has one.
-- +goose StatementBegin
CREATE FUNCTION run_facts(r run, labels jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('id', r.id, 'job_id', r.job_id, 'name', r.name, 'owner_id', r.owner_id, 'owner_name', r.owner_name,
        'project_id', r.project_id, 'project', r.project, 'visibility', r.visibility, 'labels', labels, 'tags', r.tags,
        'state', r.state, 'ended', r.ended_at IS NOT NULL, 'recipe', r.recipe_lock ->> 'name', 'protected', r.protected,
        'archived', r.archived_at IS NOT NULL, 'created_at', r.created_at)
$$;
-- +goose StatementEnd

-- The labels of a run whose labels were not copied yet are those of its job. The trigger that copies them runs after the
-- labels of the job have changed, so the labels before the change are then not known, and recorded as null.
-- +goose StatementBegin
CREATE FUNCTION record_run_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = jobs, pg_temp AS $$
DECLARE
    old_facts jsonb;
    new_facts jsonb;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        old_facts := run_facts(OLD, OLD.labels);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        new_facts := run_facts(NEW, coalesce(NEW.labels, (SELECT j.labels FROM job j WHERE j.run_id = NEW.id), '{}'));
    END IF;
    INSERT INTO run_change (run_id, before, after) VALUES (coalesce(new_facts ->> 'id', old_facts ->> 'id'), old_facts, new_facts);
    PERFORM pg_notify('jobs_wake', 'runs');
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER record_new_run AFTER INSERT ON run FOR EACH ROW EXECUTE FUNCTION record_run_change();
CREATE TRIGGER record_deleted_run AFTER DELETE ON run FOR EACH ROW EXECUTE FUNCTION record_run_change();
-- Not every column: a run without a job is heard every few seconds, and each report of a run is copied to its summary.
-- The columns that lists show and that are not here never change.
CREATE TRIGGER record_changed_run AFTER UPDATE ON run FOR EACH ROW
    WHEN ((OLD.name, OLD.owner_id, OLD.owner_name, OLD.project_id, OLD.project, OLD.visibility, OLD.state, OLD.attempts,
        OLD.end_reason, OLD.started_at, OLD.ended_at, OLD.protected, OLD.tags, OLD.labels, OLD.notes_version,
        OLD.archived_at, OLD.version) IS DISTINCT FROM (NEW.name, NEW.owner_id, NEW.owner_name, NEW.project_id,
        NEW.project, NEW.visibility, NEW.state, NEW.attempts, NEW.end_reason, NEW.started_at, NEW.ended_at,
        NEW.protected, NEW.tags, NEW.labels, NEW.notes_version, NEW.archived_at, NEW.version))
    EXECUTE FUNCTION record_run_change();

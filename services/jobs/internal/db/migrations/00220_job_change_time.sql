-- +goose Up
-- Changes of jobs also record when the job was created, for the filters of lists by time.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION record_job_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = jobs, pg_temp AS $$
DECLARE
    old_facts jsonb;
    new_facts jsonb;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        old_facts := jsonb_build_object('id', OLD.id, 'run_id', OLD.run_id, 'name', OLD.name, 'owner_id', OLD.owner_id,
            'owner_name', OLD.owner_name, 'project_id', OLD.project_id, 'project', OLD.project,
            'visibility', OLD.visibility, 'labels', OLD.labels, 'state', OLD.state, 'created_at', OLD.created_at);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        new_facts := jsonb_build_object('id', NEW.id, 'run_id', NEW.run_id, 'name', NEW.name, 'owner_id', NEW.owner_id,
            'owner_name', NEW.owner_name, 'project_id', NEW.project_id, 'project', NEW.project,
            'visibility', NEW.visibility, 'labels', NEW.labels, 'state', NEW.state, 'created_at', NEW.created_at);
    END IF;
    INSERT INTO job_change (job_id, before, after) VALUES (coalesce(new_facts ->> 'id', old_facts ->> 'id'), old_facts, new_facts);
    PERFORM pg_notify('jobs_wake', 'jobs');
    RETURN NULL;
END $$;
-- +goose StatementEnd

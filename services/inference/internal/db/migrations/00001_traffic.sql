-- +goose Up
-- One row per call that was sent to an engine. There is one partition per day, so that old calls can be deleted by
-- dropping whole partitions.
CREATE TABLE call (
    at                timestamptz NOT NULL,
    request_id        text NOT NULL,
    deployment_id     text NOT NULL,
    revision_id       text NOT NULL,
    revision_number   integer NOT NULL,
    token_id          text NOT NULL,
    token_name        text NOT NULL,
    replica_id        text NOT NULL,
    method            text NOT NULL,
    path              text NOT NULL,
    status            integer NOT NULL,
    outcome           text NOT NULL CHECK (outcome IN ('ok', 'client_closed', 'engine_error', 'engine_unreachable', 'engine_timeout', 'upstream_truncated', 'revoked', 'lease_over')),
    stream            boolean NOT NULL,
    requested_model   text,
    response_model    text,
    prompt_tokens     integer,
    completion_tokens integer,
    usage_source      text NOT NULL CHECK (usage_source IN ('engine', 'none')),
    finish_reason     text,
    ttft_ms           double precision,
    duration_ms       double precision NOT NULL,
    request_bytes     bigint NOT NULL,
    response_bytes    bigint NOT NULL
) PARTITION BY RANGE (at);
CREATE INDEX call_deployment_idx ON call (deployment_id, at DESC, request_id);

-- The names of stored batches of calls. A batch can arrive again if the response to its COPY was lost, or if a
-- segment of the spool was stored but not removed yet.
CREATE TABLE batch (
    name      text PRIMARY KEY,
    stored_at timestamptz NOT NULL DEFAULT now()
);

-- The server's role may not create tables. To create partitions, it calls this function, which runs as its owner.
-- +goose StatementBegin
CREATE FUNCTION ensure_call_partitions(first date, days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = inference, pg_temp AS $$
DECLARE
    made integer := 0;
    d date;
BEGIN
    IF days < 1 OR days > 60 THEN
        RAISE EXCEPTION 'days must be from 1 to 60';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('call partitions', 0));
    FOR i IN 0 .. days - 1 LOOP
        d := first + i;
        IF to_regclass(format('inference.call_%s', to_char(d, 'YYYYMMDD'))) IS NULL THEN
            EXECUTE format(
                'CREATE TABLE inference.call_%s PARTITION OF inference.call FOR VALUES FROM (%L) TO (%L)',
                to_char(d, 'YYYYMMDD'), d::timestamp AT TIME ZONE 'UTC', (d + 1)::timestamp AT TIME ZONE 'UTC');
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
END $$;
-- +goose StatementEnd

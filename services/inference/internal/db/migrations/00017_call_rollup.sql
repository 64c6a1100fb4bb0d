-- +goose Up
-- Sums over the calls of a minute and of an hour, so that a time series reads a number of rows that depends on its range
-- and not on the number of calls. There is a row for each token, and one with an empty token_id for all tokens.
CREATE TABLE call_rollup (
    deployment_id     text        NOT NULL,
    token_id          text        NOT NULL,
    width_s           integer     NOT NULL,
    at                timestamptz NOT NULL,
    revision_number   integer     NOT NULL,
    calls             bigint      NOT NULL,
    ok                bigint      NOT NULL,
    client_closed     bigint      NOT NULL,
    prompt_tokens     bigint      NOT NULL,
    completion_tokens bigint      NOT NULL,
    request_bytes     bigint      NOT NULL,
    response_bytes    bigint      NOT NULL,
    -- Histograms: pairs of a bucket (call_bucket) and the number of calls in it, by bucket. NULL if no call has a value.
    ttft              integer[],
    duration          integer[],
    PRIMARY KEY (deployment_id, token_id, width_s, at, revision_number)
) WITH (fillfactor = 70);
CREATE INDEX call_rollup_at_idx ON call_rollup (at);

-- Calls that began before this time may be missing from the rollups: they are older than the rollups.
CREATE TABLE call_rollup_since (
    id    integer     PRIMARY KEY CHECK (id = 1),
    since timestamptz NOT NULL
);

-- Returns the bucket of a time in milliseconds. Bucket 0 holds times up to 0.01 ms. The upper bound of each other bucket
-- is 1.04 times that of the bucket before it. rollup.go has the same numbers.
CREATE FUNCTION call_bucket(ms double precision) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN ms <= 0.01 THEN 0 ELSE least(ceil(ln(ms / 0.01) / ln(1.04::double precision)), 1000)::integer END;

-- +goose StatementBegin
CREATE FUNCTION add_call_histograms(a integer[], b integer[]) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_agg(ARRAY[bucket, n] ORDER BY bucket) FROM (
        SELECT bucket, sum(n)::integer AS n FROM (
            SELECT a[i][1] AS bucket, a[i][2] AS n FROM generate_subscripts(a, 1) AS i
            UNION ALL
            SELECT b[i][1], b[i][2] FROM generate_subscripts(b, 1) AS i
        ) AS pair GROUP BY bucket
    ) AS added;
$$;
-- +goose StatementEnd

-- Adds the inserted calls to the rollups. It is a trigger because replicas of the previous version, which do not know the
-- rollups, insert calls during an upgrade. The rows are inserted in the order of their key, so that replicas wait for each
-- other and do not deadlock.
-- +goose StatementBegin
CREATE FUNCTION roll_up_calls() RETURNS trigger
LANGUAGE plpgsql SET search_path = inference, pg_temp AS $$
BEGIN
    WITH keyed AS MATERIALIZED (
        SELECT c.deployment_id, CASE WHEN tokens.together THEN '' ELSE c.token_id END AS token_id, width.s AS width_s,
            date_bin(make_interval(secs => width.s), c.at, 'epoch') AS at, c.revision_number, c.outcome, c.prompt_tokens,
            c.completion_tokens, c.request_bytes, c.response_bytes, call_bucket(c.ttft_ms) AS ttft, call_bucket(c.duration_ms) AS duration
        FROM new_calls c, (VALUES (60), (3600)) AS width (s), (VALUES (true), (false)) AS tokens (together)
        WHERE tokens.together OR c.token_id <> ''
    ), ttft AS (
        SELECT deployment_id, token_id, width_s, at, revision_number, array_agg(ARRAY[bucket, n] ORDER BY bucket) AS histogram
        FROM (
            SELECT deployment_id, token_id, width_s, at, revision_number, ttft AS bucket, count(*)::integer AS n
            FROM keyed WHERE ttft IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6
        ) AS counted GROUP BY 1, 2, 3, 4, 5
    ), duration AS (
        SELECT deployment_id, token_id, width_s, at, revision_number, array_agg(ARRAY[bucket, n] ORDER BY bucket) AS histogram
        FROM (
            SELECT deployment_id, token_id, width_s, at, revision_number, duration AS bucket, count(*)::integer AS n
            FROM keyed GROUP BY 1, 2, 3, 4, 5, 6
        ) AS counted GROUP BY 1, 2, 3, 4, 5
    ), total AS (
        SELECT deployment_id, token_id, width_s, at, revision_number, count(*) AS calls,
            count(*) FILTER (WHERE outcome = 'ok') AS ok, count(*) FILTER (WHERE outcome = 'client_closed') AS client_closed,
            coalesce(sum(prompt_tokens), 0) AS prompt_tokens, coalesce(sum(completion_tokens), 0) AS completion_tokens,
            sum(request_bytes)::bigint AS request_bytes, sum(response_bytes)::bigint AS response_bytes
        FROM keyed GROUP BY 1, 2, 3, 4, 5
    )
    INSERT INTO call_rollup AS r (deployment_id, token_id, width_s, at, revision_number, calls, ok, client_closed, prompt_tokens,
        completion_tokens, request_bytes, response_bytes, ttft, duration)
    SELECT t.deployment_id, t.token_id, t.width_s, t.at, t.revision_number, t.calls, t.ok, t.client_closed, t.prompt_tokens,
        t.completion_tokens, t.request_bytes, t.response_bytes, ttft.histogram, duration.histogram
    FROM total t JOIN duration USING (deployment_id, token_id, width_s, at, revision_number)
        LEFT JOIN ttft USING (deployment_id, token_id, width_s, at, revision_number)
    ORDER BY t.deployment_id, t.token_id, t.width_s, t.at, t.revision_number
    ON CONFLICT (deployment_id, token_id, width_s, at, revision_number) DO UPDATE SET
        calls = r.calls + excluded.calls, ok = r.ok + excluded.ok, client_closed = r.client_closed + excluded.client_closed,
        prompt_tokens = r.prompt_tokens + excluded.prompt_tokens, completion_tokens = r.completion_tokens + excluded.completion_tokens,
        request_bytes = r.request_bytes + excluded.request_bytes, response_bytes = r.response_bytes + excluded.response_bytes,
        ttft = add_call_histograms(r.ttft, excluded.ttft), duration = add_call_histograms(r.duration, excluded.duration);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER roll_up_calls AFTER INSERT ON call REFERENCING NEW TABLE AS new_calls
    FOR EACH STATEMENT EXECUTE FUNCTION roll_up_calls();

-- Without older calls the rollups are complete. Otherwise they are complete from a whole hour on that begins later than the
-- trigger exists, by the clock of any replica.
INSERT INTO call_rollup_since (id, since)
SELECT 1, CASE WHEN EXISTS (SELECT FROM call) THEN date_bin('1 hour', clock_timestamp() + interval '1 hour 5 minutes', 'epoch') ELSE 'epoch' END;

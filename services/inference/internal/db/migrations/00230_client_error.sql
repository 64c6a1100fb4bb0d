-- +goose Up
-- The calls whose request was at fault. Earlier versions recorded engine_error for them, except for WebSockets.
ALTER TABLE call_rollup ADD COLUMN client_error bigint NOT NULL DEFAULT 0;

-- As before, with the new column.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION roll_up_calls() RETURNS trigger
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
            count(*) FILTER (WHERE outcome = 'client_error') AS client_error,
            coalesce(sum(prompt_tokens), 0) AS prompt_tokens, coalesce(sum(completion_tokens), 0) AS completion_tokens,
            sum(request_bytes)::bigint AS request_bytes, sum(response_bytes)::bigint AS response_bytes
        FROM keyed GROUP BY 1, 2, 3, 4, 5
    )
    INSERT INTO call_rollup AS r (deployment_id, token_id, width_s, at, revision_number, calls, ok, client_closed, client_error, prompt_tokens,
        completion_tokens, request_bytes, response_bytes, ttft, duration)
    SELECT t.deployment_id, t.token_id, t.width_s, t.at, t.revision_number, t.calls, t.ok, t.client_closed, t.client_error, t.prompt_tokens,
        t.completion_tokens, t.request_bytes, t.response_bytes, ttft.histogram, duration.histogram
    FROM total t JOIN duration USING (deployment_id, token_id, width_s, at, revision_number)
        LEFT JOIN ttft USING (deployment_id, token_id, width_s, at, revision_number)
    ORDER BY t.deployment_id, t.token_id, t.width_s, t.at, t.revision_number
    ON CONFLICT (deployment_id, token_id, width_s, at, revision_number) DO UPDATE SET
        calls = r.calls + excluded.calls, ok = r.ok + excluded.ok, client_closed = r.client_closed + excluded.client_closed,
        client_error = r.client_error + excluded.client_error,
        prompt_tokens = r.prompt_tokens + excluded.prompt_tokens, completion_tokens = r.completion_tokens + excluded.completion_tokens,
        request_bytes = r.request_bytes + excluded.request_bytes, response_bytes = r.response_bytes + excluded.response_bytes,
        ttft = add_call_histograms(r.ttft, excluded.ttft), duration = add_call_histograms(r.duration, excluded.duration);
    RETURN NULL;
END $$;
-- +goose StatementEnd

package db

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Each function of this file deletes at most limit rows that ended or expired before the given time, and returns their
// number. Callers that run at the same time delete different rows.

// DeleteJobs deletes ended jobs with their attempts and works. Their runs stay. A job stays while one of its works
// is not released, and while its run does not have its labels.
func DeleteJobs(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "ended jobs", `
		WITH old AS MATERIALIZED (SELECT id FROM job WHERE ended_at IS NOT NULL AND ended_at < $1
			AND NOT EXISTS (SELECT FROM work w WHERE w.kind = 'attempt' AND w.job_id = job.id AND w.released_at IS NULL)
			AND NOT EXISTS (SELECT FROM run r WHERE r.id = job.run_id AND r.labels IS NULL)
			ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED),
		tries AS (DELETE FROM attempt a USING old WHERE a.job_id = old.id),
		works AS (DELETE FROM work w USING old WHERE w.kind = 'attempt' AND w.job_id = old.id),
		jobs AS (DELETE FROM job j USING old WHERE j.id = old.id RETURNING j.id)
		SELECT count(*) FROM jobs`, before, limit)
}

// DeleteWorks deletes the works of attempts that were released before the given time.
func DeleteWorks(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "ended works", `
		WITH old AS (DELETE FROM work WHERE id IN (SELECT id FROM work WHERE kind = 'attempt' AND released_at IS NOT NULL AND released_at < $1
			ORDER BY released_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id)
		SELECT count(*) FROM old`, before, limit)
}

// DeleteEngines deletes engines that are gone.
func DeleteEngines(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "ended engines", `
		WITH old AS (DELETE FROM work WHERE id IN (SELECT id FROM work WHERE kind = 'engine' AND phase = 'gone' AND released_at IS NOT NULL
			AND updated_at < $1 ORDER BY updated_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id)
		SELECT count(*) FROM old`, before, limit)
}

// DeleteIngestTokens deletes expired ingest tokens. An unknown token is rejected like an expired one.
func DeleteIngestTokens(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "expired ingest tokens", `
		WITH old AS (DELETE FROM ingest_token WHERE hash IN (SELECT hash FROM ingest_token WHERE expires_at < $1
			ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING hash)
		SELECT count(*) FROM old`, before, limit)
}

// DeleteJoinTokens deletes join tokens that have expired or were revoked.
func DeleteJoinTokens(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "ended join tokens", `
		WITH old AS (DELETE FROM join_token WHERE id IN (SELECT id FROM join_token WHERE least(expires_at, revoked_at) < $1
			ORDER BY least(expires_at, revoked_at) LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id)
		SELECT count(*) FROM old`, before, limit)
}

// DeleteShares deletes public links that have expired or were revoked, with their pinned content.
func DeleteShares(ctx context.Context, q pg.Querier, before time.Time, limit int) (int64, error) {
	return deleted(ctx, q, "ended shares", `
		WITH old AS (DELETE FROM share WHERE id IN (SELECT id FROM share WHERE least(expires_at, revoked_at) < $1
			ORDER BY least(expires_at, revoked_at) LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id)
		SELECT count(*) FROM old`, before, limit)
}

func deleted(ctx context.Context, q pg.Querier, what, sql string, before time.Time, limit int) (int64, error) {
	var n int64
	if err := q.QueryRow(ctx, sql, before, limit).Scan(&n); err != nil {
		return 0, fmt.Errorf("delete %s: %w", what, err)
	}
	return n, nil
}

package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// references returns the objects of this service that refer to a run, first those that prevent its deletion. Seen is set for those
// that the scope sees.
func (Store) references(ctx context.Context, q pg.Querier, scope authn.Scope, r *Run) ([]*reference, error) {
	refs, err := pg.All[reference](q.Query(ctx, `SELECT kind, id, name, effect, seen FROM (
			(SELECT 'run' AS kind, id, name, CASE WHEN ended_at IS NULL THEN 'blocks' ELSE 'kept' END AS effect, `+access.Visible+` AS seen
				FROM run WHERE parents @> jsonb_build_array(jsonb_build_object('run_id', $4::text)) ORDER BY ended_at DESC NULLS FIRST LIMIT $5)
			UNION ALL (SELECT 'job', id, name, 'blocks', `+access.Visible+` FROM job
				WHERE ended_at IS NULL AND split_part(checkpoint ->> 'uri', '/', 4) = $4 AND run_id <> $4 LIMIT $5)
			UNION ALL (SELECT 'job', id, name, 'deleted', `+access.Visible+` FROM job WHERE run_id = $4)
			UNION ALL (SELECT 'share', id, title, 'deleted', $1 OR owner_id = $2 FROM share
				WHERE runs @> ARRAY[$4] AND revoked_at IS NULL ORDER BY created_at DESC LIMIT $5)
		) found ORDER BY effect, kind, id`, access.Args(scope, r.ID, maxReferences)...))
	if err != nil {
		return nil, fmt.Errorf("find what refers to run %s: %w", r.ID, err)
	}
	return refs, nil
}

// dropJob deletes an ended job with its attempts, works and tokens, as the retention rule does later. It returns a conflict
// if the job has not ended, or if a node still has to release its work. existed is false if there is no such job.
func (Store) dropJob(ctx context.Context, tx pgx.Tx, jobID string) (existed bool, err error) {
	var free bool
	err = tx.QueryRow(ctx, `SELECT ended_at IS NOT NULL AND NOT EXISTS (
			SELECT FROM work w WHERE w.kind = 'attempt' AND w.job_id = job.id AND w.released_at IS NULL)
		FROM job WHERE id = $1 FOR UPDATE`, jobID).Scan(&free)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock job %s: %w", jobID, err)
	}
	if !free {
		return true, fault.New(fault.Conflict, "job_state", "job %s has not ended, or a node still has its files; stop it or wait a moment, then repeat the request", jobID)
	}
	for _, statement := range []string{
		`DELETE FROM ingest_token WHERE work_id IN (SELECT id FROM work WHERE kind = 'attempt' AND job_id = $1) AND revoked_at IS NULL`,
		`DELETE FROM attempt WHERE job_id = $1`,
		`DELETE FROM work WHERE kind = 'attempt' AND job_id = $1`,
		`DELETE FROM job WHERE id = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, jobID); err != nil {
			return true, fmt.Errorf("delete job %s: %w", jobID, err)
		}
	}
	return true, nil
}

// drop deletes a locked run that has ended, revokes its token and its public links, and returns the number of these links.
// The notes and the copies of metrics are deleted by the database.
func (Store) drop(ctx context.Context, tx pgx.Tx, runID string) (links int64, err error) {
	_, err = tx.Exec(ctx, `DELETE FROM share_pin WHERE share_id IN (SELECT id FROM share WHERE runs @> ARRAY[$1])`, runID)
	if err != nil {
		return 0, fmt.Errorf("delete the pinned content of run %s: %w", runID, err)
	}
	tag, err := tx.Exec(ctx, `UPDATE share SET revoked_at = clock_timestamp() WHERE runs @> ARRAY[$1] AND revoked_at IS NULL`, runID)
	if err != nil {
		return 0, fmt.Errorf("revoke the links to run %s: %w", runID, err)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM ingest_token WHERE work_id = $1 AND revoked_at IS NULL`, runID); err != nil {
		return 0, fmt.Errorf("delete the token of run %s: %w", runID, err)
	}
	gone, err := tx.Exec(ctx, `DELETE FROM run WHERE id = $1 AND ended_at IS NOT NULL`, runID)
	if err != nil {
		return 0, fmt.Errorf("delete run %s: %w", runID, err)
	}
	if gone.RowsAffected() == 0 {
		return 0, fault.New(fault.Conflict, "run_state", "run %s has not ended", runID)
	}
	return tag.RowsAffected(), nil
}

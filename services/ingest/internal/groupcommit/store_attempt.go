package groupcommit

import "github.com/jackc/pgx/v5"

// ReportSteps records that the run's attempt has reported steps, and the lowest of them. From then on the attempt hides
// points of older attempts; the view attempt_bound has the rule. The first attempt hides nothing, so
// nothing is recorded for it.
func (r *Run) ReportSteps(batch *pgx.Batch, lowest int64) {
	if r.Attempt <= 1 {
		return
	}
	batch.Queue(`INSERT INTO attempt_step AS a (run_id, attempt, low_step, resume_step) SELECT $1, $2, $3::bigint, $4::bigint
		WHERE NOT EXISTS (SELECT FROM attempt_step WHERE run_id = $1 AND attempt = $2 AND low_step <= $3)
		ON CONFLICT (run_id, attempt) DO UPDATE SET low_step = least(a.low_step, excluded.low_step),
			resume_step = coalesce(a.resume_step, excluded.resume_step)`, r.ID, r.Attempt, lowest, r.ResumeStep)
}

package reporting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Store reads and writes ingest tokens. Rand is the source of randomness for new tokens.
type Store struct{ Rand io.Reader }

// Holder is the execution that a token is minted for. A run without a job has no JobID, and its own ID as WorkID.
type Holder struct {
	WorkID, JobID, RunID string
	Attempt              int
}

// Mint creates the token of a work item and revokes the previous one.
func (s *Store) Mint(ctx context.Context, tx pgx.Tx, h Holder, now time.Time) (secret.String, time.Time, error) {
	tok, err := secret.Mint(s.Rand, secret.KindIngest)
	if err != nil {
		return secret.String{}, time.Time{}, err
	}
	if _, err := tx.Exec(ctx, `UPDATE ingest_token SET revoked_at = $2 WHERE work_id = $1 AND revoked_at IS NULL`,
		h.WorkID, now); err != nil {
		return secret.String{}, time.Time{}, fmt.Errorf("revoke the previous ingest token: %w", err)
	}
	expires := now.Add(Lifetime)
	_, err = tx.Exec(ctx, `INSERT INTO ingest_token (hash, job_id, run_id, attempt, work_id, created_at, expires_at)
		VALUES ($1,$2,$3,$4,$5,$6,$7)`, secret.Hash(tok.Reveal()), h.JobID, h.RunID, h.Attempt, h.WorkID, now, expires)
	if err != nil {
		return secret.String{}, time.Time{}, fmt.Errorf("store the ingest token: %w", err)
	}
	return tok, expires, nil
}

// Resolve returns the grant of a token. Unknown, revoked and expired tokens give the same error.
func (s *Store) Resolve(ctx context.Context, q pg.Querier, hash []byte, now time.Time) (*Grant, error) {
	var g Grant
	err := q.QueryRow(ctx, `SELECT t.job_id, t.run_id, t.attempt, t.expires_at,
			t.attempt = coalesce(j.attempt, r.attempts) AND (a.ended_at IS NULL OR j.ended_at IS NOT NULL),
			CASE WHEN j.id IS NULL THEN r.ended_at ELSE j.ended_at END, coalesce(j.owner_id, r.owner_id), coalesce(j.project_id, r.project_id),
			coalesce(j.project, r.project), coalesce(j.visibility, r.visibility), coalesce(j.visibility_version, r.visibility_version),
			coalesce(f.kind <> 'agent', false), coalesce(j.protected, false) OR coalesce(r.protected, false), r.disclosure, a.resumed_step, r.goals,
			j.spec -> 'checkpoint'
		FROM ingest_token t LEFT JOIN job j ON j.id = t.job_id LEFT JOIN work w ON w.id = t.work_id
			LEFT JOIN run r ON r.id = t.run_id LEFT JOIN node n ON n.id = w.node_id LEFT JOIN fleet f ON f.id = n.fleet_id
			LEFT JOIN attempt a ON a.job_id = t.job_id AND a.number = t.attempt
		WHERE t.hash = $1 AND t.revoked_at IS NULL AND t.expires_at > $2
			AND (j.id IS NOT NULL AND w.id IS NOT NULL OR t.job_id = '' AND r.silence_s IS NOT NULL)`, hash, now).
		Scan(&g.JobID, &g.RunID, &g.Attempt, &g.ExpiresAt, &g.Current, &g.EndedAt,
			&g.OwnerID, &g.ProjectID, &g.Project, &g.Visibility, &g.VisibilityVersion, &g.Container, &g.Withhold, &g.Disclosure, &g.ResumeStep, &g.Goals,
			&g.Checkpoints)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.New(fault.Unauthenticated, "ingest_token", "the ingest token is unknown, revoked or expired")
	}
	if err != nil {
		return nil, fmt.Errorf("find an ingest token: %w", err)
	}
	return &g, nil
}

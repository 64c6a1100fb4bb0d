package artifact

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

const columns = `id, run_id, attempt, kind, format, step, path, coalesce(name, '') AS given, size_bytes, coalesce(sha256, '') AS sha256, created_at, withheld, removed_at`

// Write registers an artifact under a new id. If the run already has an artifact with the same kind, path and step,
// Write leaves that artifact unchanged.
func Write(a *Artifact, newID string) groupcommit.Write {
	return func(ctx context.Context, tx pgx.Tx, _ *pgx.Batch, r *groupcommit.Run) error {
		_, err := tx.Exec(ctx, `INSERT INTO artifact (id, run_id, attempt, kind, format, step, path, size_bytes, sha256, created_at,
				withheld, name)
			VALUES (@id, @run_id, @attempt, @kind, @format, @step, @path, @size_bytes, nullif(@sha256, ''), @created_at, @withheld, nullif(@name, ''))
			ON CONFLICT (run_id, kind, path, step) DO NOTHING`, pgx.StrictNamedArgs{
			"id": newID, "run_id": r.ID, "attempt": r.Attempt, "kind": a.Kind, "format": a.Format, "step": a.Step, "path": a.Path,
			"size_bytes": a.Size, "sha256": a.SHA256, "created_at": r.Now, "withheld": a.Withheld, "name": a.Given,
		})
		if err != nil {
			return fmt.Errorf("register an artifact: %w", err)
		}
		return nil
	}
}

// Store reads artifacts.
type Store struct{ Pool pg.Querier }

// Find returns the registered artifact with the same run, kind, path and step as the given one, or an Absent fault if
// there is none.
func (s *Store) Find(ctx context.Context, a *Artifact) (*Artifact, error) {
	return s.one(ctx, a.Path, ` WHERE run_id = $1 AND kind = $2 AND path = $3 AND step IS NOT DISTINCT FROM $4`,
		a.RunID, a.Kind, a.Path, a.Step)
}

// Get returns the artifact of a run with the given id, or an Absent fault if the run has no such artifact.
func (s *Store) Get(ctx context.Context, runID, id string) (*Artifact, error) {
	return s.one(ctx, id, ` WHERE run_id = $1 AND id = $2`, runID, id)
}

func (s *Store) one(ctx context.Context, name, where string, args ...any) (*Artifact, error) {
	a, err := pg.One[Artifact](s.Pool.Query(ctx, `SELECT `+columns+` FROM artifact`+where, args...))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Absentf("artifact", name)
	}
	if err != nil {
		return nil, fmt.Errorf("load an artifact: %w", err)
	}
	return a, nil
}

// List returns a page of a run's artifacts in the order of registration, and whether another page follows.
func (s *Store) List(ctx context.Context, runID string, p request.Page) ([]*Artifact, bool, error) {
	all, err := pg.All[Artifact](s.Pool.Query(ctx, `SELECT `+columns+` FROM artifact WHERE run_id = $1 ORDER BY created_at, id LIMIT $2 OFFSET $3`,
		runID, p.FetchLimit(), p.Offset))
	if err != nil {
		return nil, false, fmt.Errorf("list artifacts: %w", err)
	}
	all, more := request.CutPage(all, p)
	return all, more, nil
}

package engineclient

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// execution identifies one run of an engine's process.
type execution struct{ ReplicaID, Address string }

// Suspicion states that calls get no byte from an engine.
type Suspicion struct {
	ReplicaID, Address string
	FailedProbes       int
	// Age is the time since a replica of inference first suspected the engine, by the clock of the database.
	Age time.Duration
}

func (s *Suspicion) execution() execution { return execution{s.ReplicaID, s.Address} }

// SilenceStore stores the suspicions of all replicas of inference.
type SilenceStore struct{ Pool *pgxpool.Pool }

// maxSuspicions is the maximum number of suspicions that List returns.
const maxSuspicions = 1000

// List returns the suspicions, oldest first, at most maxSuspicions.
func (s *SilenceStore) List(ctx context.Context) ([]*Suspicion, error) {
	found, err := pg.All[Suspicion](s.Pool.Query(ctx, `SELECT replica_id, address, failed_probes, clock_timestamp() - suspected_at AS age
		FROM engine_silence ORDER BY suspected_at LIMIT $1`, maxSuspicions))
	if err != nil {
		return nil, fmt.Errorf("list the suspected engines: %w", err)
	}
	return found, nil
}

// Suspect adds a suspicion and reports whether it is new.
func (s *SilenceStore) Suspect(ctx context.Context, t Target) (added bool, err error) {
	tag, err := s.Pool.Exec(ctx, `INSERT INTO engine_silence (replica_id, address, revision_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		t.ReplicaID, t.Address, t.RevisionID)
	if err != nil {
		return false, fmt.Errorf("store the suspicion of an engine: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// Clear deletes a suspicion.
func (s *SilenceStore) Clear(ctx context.Context, e execution) error {
	_, err := s.Pool.Exec(ctx, `DELETE FROM engine_silence WHERE replica_id = $1 AND address = $2`, e.ReplicaID, e.Address)
	if err != nil {
		return fmt.Errorf("delete the suspicion of an engine: %w", err)
	}
	return nil
}

// Claim gives one process the right to probe an engine next, for the given time. It returns false if another process
// has this right or enough probes have failed.
func (s *SilenceStore) Claim(ctx context.Context, e execution, name string, within time.Duration) (bool, error) {
	tag, err := s.Pool.Exec(ctx, `UPDATE engine_silence SET prober = $3, probing_until = clock_timestamp() + $4
		WHERE replica_id = $1 AND address = $2 AND failed_probes < $5 AND (probing_until IS NULL OR probing_until < clock_timestamp())`,
		e.ReplicaID, e.Address, name, within, enoughProbes)
	if err != nil {
		return false, fmt.Errorf("claim the probe of an engine: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// Failed counts a failed probe if the process with the given name still has the right to probe, which Claim granted.
func (s *SilenceStore) Failed(ctx context.Context, e execution, name string) error {
	_, err := s.Pool.Exec(ctx, `UPDATE engine_silence SET failed_probes = failed_probes + 1, probing_until = NULL
		WHERE replica_id = $1 AND address = $2 AND prober = $3 AND probing_until IS NOT NULL`, e.ReplicaID, e.Address, name)
	if err != nil {
		return fmt.Errorf("count a failed probe: %w", err)
	}
	return nil
}

package revision

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Save writes the mutable columns of a revision if its stored state is still from. Otherwise it returns a conflict.
func (s *Store) Save(ctx context.Context, tx pgx.Tx, r *Revision, from State) error {
	var reason, probes, sealed []byte
	if r.Reason != nil {
		raw, err := json.Marshal(r.Reason)
		if err != nil {
			return fmt.Errorf("encode a reason: %w", err)
		}
		reason = raw
	}
	if len(r.Probes) > 0 {
		probes = r.Probes
	}
	if !r.Engine.Key.IsZero() {
		raw, err := s.Keys.Seal([]byte(r.Engine.Key.Reveal()), keyPlace(r.ID))
		if err != nil {
			return fmt.Errorf("encrypt the engine's API key: %w", err)
		}
		sealed = raw
	}
	desired := "gone"
	if r.Wanted {
		desired = "running"
	}
	tag, err := tx.Exec(ctx, `UPDATE revision SET state = $3, reason = $4, work_generation = $5, desired = $6, fence = $7,
			node_id = $8, pid = $9, address = $10, api_key = $11, started_at = $12, engine_ready_at = $13, probe_report = $14,
			ready_at = $15
		WHERE id = $1 AND state = $2`,
		r.ID, from, r.State, reason, r.Generation, desired, r.Engine.Fence, r.Engine.NodeID, r.Engine.PID, r.Engine.Address,
		sealed, r.Engine.StartedAt, r.Engine.ReadyAt, probes, r.ReadyAt)
	if err != nil {
		return fmt.Errorf("save a revision: %w", err)
	}
	if tag.RowsAffected() != 1 {
		return fault.New(fault.Conflict, "revision_changed", "revision %d was changed by another request", r.Number)
	}
	return nil
}

// MarkPromoted records the time of a promotion.
func (*Store) MarkPromoted(ctx context.Context, tx pgx.Tx, r *Revision, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE revision SET promoted_at = array_append(promoted_at, $2) WHERE id = $1 AND state = 'ready'`, r.ID, at)
	if err != nil {
		return fmt.Errorf("record a promotion: %w", err)
	}
	return nil
}

package revision

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Save writes the mutable columns of a revision if its stored state still equals the state from. Otherwise it returns a
// conflict.
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
	tag, err := tx.Exec(ctx, `UPDATE revision SET state = @state, reason = @reason, work_generation = @work_generation,
			desired = @desired, fence = @fence, node_id = @node_id, pid = @pid, address = @address, api_key = @api_key,
			started_at = @started_at, engine_ready_at = @engine_ready_at, probe_report = @probe_report, ready_at = @ready_at
		WHERE id = @id AND state = @from`, pgx.StrictNamedArgs{
		"id": r.ID, "from": from, "state": r.State, "reason": reason, "work_generation": r.Generation, "desired": desired,
		"fence": r.Engine.Fence, "node_id": r.Engine.NodeID, "pid": r.Engine.PID, "address": r.Engine.Address, "api_key": sealed,
		"started_at": r.Engine.StartedAt, "engine_ready_at": r.Engine.ReadyAt, "probe_report": probes, "ready_at": r.ReadyAt,
	})
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

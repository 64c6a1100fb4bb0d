package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Beat is a heartbeat of a node's session.
type Beat struct {
	NodeID  string
	Session int64
}

// Beats stores many heartbeats in one statement and ignores those of superseded sessions. It returns the ids of the
// nodes that were lost until now.
func (s Store) Beats(ctx context.Context, tx pgx.Tx, beats []Beat, now time.Time) (back []string, err error) {
	ids, sessions := make([]string, len(beats)), make([]int64, len(beats))
	for i, b := range beats {
		ids[i], sessions[i] = b.NodeID, b.Session
	}
	rows, err := tx.Query(ctx, `WITH beat AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS b (id, session)),
			old AS (SELECT node.id, node.state FROM node JOIN beat USING (id, session) ORDER BY node.id FOR UPDATE OF node)
		UPDATE node SET last_seen_at = $3, lost_at = NULL, state = CASE WHEN node.state = 'lost' THEN 'ready' ELSE node.state END
		FROM old WHERE node.id = old.id RETURNING node.id, old.state = 'lost'`, ids, sessions, now)
	if err != nil {
		return nil, fmt.Errorf("store heartbeats: %w", err)
	}
	var id string
	var lost bool
	_, err = pgx.ForEachRow(rows, []any{&id, &lost}, func() error {
		if lost {
			back = append(back, id)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("store heartbeats: %w", err)
	}
	return back, nil
}

// MarkLost marks the nodes that have sent nothing since the given time as lost, and returns their ids.
func (s Store) MarkLost(ctx context.Context, tx pgx.Tx, seenBefore, now time.Time) ([]string, error) {
	rows, err := tx.Query(ctx, `UPDATE node SET state = 'lost', lost_at = $2
		WHERE state IN ('ready', 'draining', 'unhealthy') AND last_seen_at < $1 RETURNING id`, seenBefore, now)
	return collectIDs(rows, err)
}

// ExpireJoining removes nodes that joined before the given time and have never connected, at most limit of them.
func (s Store) ExpireJoining(ctx context.Context, tx pgx.Tx, joinedBefore time.Time, limit int) ([]string, error) {
	rows, err := tx.Query(ctx, `DELETE FROM node WHERE id IN (SELECT id FROM node WHERE state = 'joining' AND joined_at < $1
		ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id`, joinedBefore, limit)
	return collectIDs(rows, err)
}

// Removed returns the IDs of the nodes that have work but no row.
func (s Store) Removed(ctx context.Context, q pg.Querier) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT DISTINCT w.node_id FROM work w WHERE w.released_at IS NULL AND w.node_id <> ''
		AND NOT EXISTS (SELECT FROM node n WHERE n.id = w.node_id) ORDER BY w.node_id`)
	return collectIDs(rows, err)
}

// LostSince returns the ids of the nodes that became lost at the given time or earlier and still have work whose lease
// was last renewed before the time renewedBefore, or never. Works that keep their place in the queue of a batch system, as
// assignment.Work.KeepsPlace describes, do not count.
func (s Store) LostSince(ctx context.Context, q pg.Querier, before, renewedBefore time.Time) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT n.id FROM node n WHERE n.state = 'lost' AND n.lost_at <= $1
		AND EXISTS (SELECT FROM work w WHERE w.node_id = n.id AND w.released_at IS NULL
			AND (w.renewed_at IS NULL OR w.renewed_at < $2)
			AND NOT (w.batch AND w.exited_at IS NULL AND w.phase IN ('', 'pending') AND w.batch_id <> '' AND w.renewed_at IS NULL AND w.desired = 'running'))
		ORDER BY n.id`, before, renewedBefore)
	return collectIDs(rows, err)
}

func collectIDs(rows pgx.Rows, err error) ([]string, error) {
	if err != nil {
		return nil, fmt.Errorf("find nodes: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find nodes: %w", err)
	}
	return ids, nil
}

package fleet_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

type harness struct {
	pool     *pgxpool.Pool
	liveness *fleet.Liveness
	nodes    []string
}

func newHarness(t *testing.T, nodes int) *harness {
	t.Helper()
	ids := id.NewSource(clock.Real(), rand.Reader)
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs", Migrations: db.Migrations}).Pool("jobs")
	b := &harness{pool: pool, liveness: fleet.NewLiveness(pool, event.NewLog(clock.Real(), ids, "jobs"), 0, 200)}
	require.NoError(t, pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		f := &fleet.Fleet{ID: ids.New(id.Fleet), Name: "f", Kind: fleet.KindAgent, State: fleet.Active, Pools: []string{"cpu"}, CreatedAt: clock.Real().Now()}
		if err := (fleet.Store{}).Insert(ctx, tx, f); err != nil {
			return err
		}
		for i := range nodes {
			n := &fleet.Node{ID: ids.New(id.Node), FleetID: f.ID, Name: fmt.Sprintf("n%d", i), State: fleet.NodeJoining, SlotsTotal: 2, JoinedAt: clock.Real().Now()}
			if err := (fleet.Store{}).InsertNode(ctx, tx, n); err != nil {
				return err
			}
			b.nodes = append(b.nodes, n.ID)
		}
		return nil
	}))
	return b
}

func (b *harness) state(t *testing.T, nodeID string) string {
	t.Helper()
	var state string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT state FROM node WHERE id = $1`, nodeID).Scan(&state))
	return state
}

func (b *harness) open(t *testing.T, nodeID string) int64 {
	t.Helper()
	session, err := b.liveness.Open(t.Context(), fleet.Hello{NodeID: nodeID, Incarnation: "x", Drivers: []string{}, Inventory: fleet.Inventory{CPUs: 4}})
	require.NoError(t, err)
	return session
}

func TestLiveness_nodeLifecycle(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2)
	node := b.nodes[0]
	require.EqualValues(t, 1, b.open(t, node))
	require.Equal(t, fleet.NodeReady, b.state(t, node))
	later := func(d time.Duration) context.Context { return pg.WithOffset(t.Context(), d) }
	require.NoError(t, b.liveness.Expire(later(20*time.Second), 30*time.Second))
	require.Equal(t, fleet.NodeReady, b.state(t, node))
	require.NoError(t, b.liveness.Expire(later(31*time.Second), 30*time.Second))
	require.Equal(t, fleet.NodeLost, b.state(t, node))
	require.Equal(t, fleet.NodeJoining, b.state(t, b.nodes[1]), "a node that never connected must not become lost")

	b.liveness.Beat(fleet.Beat{NodeID: node, Session: 1})
	require.NoError(t, b.liveness.Flush(t.Context()))
	require.Equal(t, fleet.NodeReady, b.state(t, node), "one heartbeat must make the node ready again")
	var events int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM event WHERE subject_id = $1`, node).Scan(&events))
	require.Equal(t, 3, events, "the node must have the events ready, lost and ready")
}

func TestLiveness_Beat_ignoresOldSession(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	node := b.nodes[0]
	require.EqualValues(t, 1, b.open(t, node))
	require.EqualValues(t, 2, b.open(t, node))
	require.NoError(t, b.liveness.Expire(pg.WithOffset(t.Context(), time.Minute), 30*time.Second))
	b.liveness.Beat(fleet.Beat{NodeID: node, Session: 1})
	require.NoError(t, b.liveness.Flush(t.Context()))
	require.Equal(t, fleet.NodeLost, b.state(t, node))
	session, err := b.liveness.Session(t.Context(), node)
	require.NoError(t, err)
	require.EqualValues(t, 2, session)
	_, err = b.liveness.Session(t.Context(), "nod_none")
	require.True(t, fault.HasCode(err, fleet.CodeRemoved))
}

func TestLiveness_Flush_storesHeartbeatsTogether(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 40)
	for _, n := range b.nodes {
		session := b.open(t, n)
		for range 3 {
			b.liveness.Beat(fleet.Beat{NodeID: n, Session: session})
		}
	}
	ctx := pg.WithOffset(t.Context(), time.Minute)
	require.NoError(t, b.liveness.Flush(ctx))
	var distinct int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(DISTINCT last_seen_at) FROM node`).Scan(&distinct))
	require.Equal(t, 1, distinct)
	require.NoError(t, b.liveness.Expire(pg.WithOffset(t.Context(), 80*time.Second), 30*time.Second))
	require.Equal(t, fleet.NodeReady, b.state(t, b.nodes[39]))
	require.NoError(t, b.liveness.Flush(ctx), "an empty batch must not be an error")
}

func TestLiveness_NodesToFence_onlyNodesWithWork(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2)
	for _, n := range b.nodes {
		b.open(t, n)
	}
	_, err := b.pool.Exec(t.Context(), `INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id, project_id, node_id, created_at, updated_at)
		VALUES ('wrk_1', 'engine', 1, 1, 'running', now(), '', 'cpu', 0, 1, 'u', 'p', $1, now(), now())`, b.nodes[0])
	require.NoError(t, err)
	require.NoError(t, b.liveness.Expire(pg.WithOffset(t.Context(), time.Minute), 30*time.Second))
	now := func(offset time.Duration) time.Time {
		at, err := pg.Now(pg.WithOffset(t.Context(), offset), b.pool)
		require.NoError(t, err)
		return at
	}
	fenced := func(offset time.Duration) []string {
		ids, err := b.liveness.NodesToFence(t.Context(), now(offset-90*time.Second), now(offset-2*time.Minute))
		require.NoError(t, err)
		return ids
	}
	require.Empty(t, fenced(2*time.Minute))
	require.Equal(t, []string{b.nodes[0]}, fenced(4*time.Minute))
	_, err = b.pool.Exec(t.Context(), `UPDATE work SET renewed_at = $1`, now(3*time.Minute))
	require.NoError(t, err)
	require.Empty(t, fenced(4*time.Minute), "a node must not be fenced if the lease of its only work was renewed")
	require.Equal(t, []string{b.nodes[0]}, fenced(6*time.Minute))
}

func TestSlots(t *testing.T) {
	t.Parallel()
	require.Equal(t, 16, fleet.Inventory{}.Slots(0))
	require.Equal(t, 16, fleet.Inventory{CPUs: 1}.Slots(0))
	require.Equal(t, 128, fleet.Inventory{CPUs: 16}.Slots(0))
	require.Equal(t, 1, fleet.Inventory{CPUs: 16}.Slots(1))
}

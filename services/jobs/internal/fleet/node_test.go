package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// put writes a node's and its fleet's state directly into the tables.
func (b *harness) put(t *testing.T, node, state, fleetState string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), `UPDATE node SET state = $2, lost_at = CASE WHEN $2 = 'lost' THEN now() END,
		last_seen_at = now() WHERE id = $1`, node, state)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(), `UPDATE fleet SET state = $1`, fleetState)
	require.NoError(t, err)
}

// The last two columns state whether the node gets work, and whether a submission may count on it.
func TestNodeAndFleetStates(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 1)
	node, store := b.nodes[0], fleet.Store{}
	for _, c := range []struct {
		node, fleet     string
		places, promise bool
	}{
		{fleet.NodeReady, fleet.Active, true, true},
		{fleet.NodeJoining, fleet.Active, false, true},
		{fleet.NodeLost, fleet.Active, false, true}, // a lost node may come back
		{fleet.NodeReady, fleet.Draining, false, true},
		{fleet.NodeReady, "disabled", false, false},
	} {
		name := c.node + " node in " + c.fleet + " fleet"
		b.put(t, node, c.node, c.fleet)
		ready, err := store.Ready(t.Context(), b.pool)
		require.NoError(t, err)
		require.Equal(t, c.places, len(ready) == 1, name)
		nodes, known, err := store.InPool(t.Context(), b.pool, "cpu", time.Now().Add(-time.Minute))
		require.NoError(t, err)
		require.Equal(t, c.promise, known, name)
		require.Equal(t, c.promise, len(nodes) == 1, name)
		_, known, err = store.InPool(t.Context(), b.pool, "cp", time.Time{})
		require.NoError(t, err)
		require.False(t, known, "a prefix of a pool name must not match")
		shown, err := store.Nodes(t.Context(), b.pool, request.Page{Limit: 10})
		require.NoError(t, err)
		require.Len(t, shown, 1, "a node must be listed in every state")
		require.Equal(t, c.node, shown[0].State)
	}
}

// A node that sends nothing becomes lost, unless it never connected. The columns are the states after silence, after
// a heartbeat and after a new session.
func TestNodeStateAfterSilenceAndHeartbeat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ state, silent, beat, opened string }{
		{fleet.NodeReady, fleet.NodeLost, fleet.NodeReady, fleet.NodeReady},
		{fleet.NodeLost, fleet.NodeLost, fleet.NodeReady, fleet.NodeReady},
		{fleet.NodeJoining, fleet.NodeJoining, fleet.NodeJoining, fleet.NodeReady},
	} {
		t.Run(c.state, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, 3)
			session := b.open(t, b.nodes[1])
			for _, node := range b.nodes {
				b.put(t, node, c.state, fleet.Active)
			}
			require.NoError(t, b.liveness.Expire(pg.WithOffset(t.Context(), 31*time.Second), 30*time.Second))
			require.Equal(t, c.silent, b.state(t, b.nodes[0]))
			b.put(t, b.nodes[1], c.state, fleet.Active)
			b.liveness.Beat(fleet.Beat{NodeID: b.nodes[1], Session: session})
			require.NoError(t, b.liveness.Flush(t.Context()))
			require.Equal(t, c.beat, b.state(t, b.nodes[1]))
			b.put(t, b.nodes[2], c.state, fleet.Active)
			b.open(t, b.nodes[2])
			require.Equal(t, c.opened, b.state(t, b.nodes[2]))
		})
	}
}

func TestFreeCapacityExcludesUnreleasedWork(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2)
	store := fleet.Store{}
	for _, n := range b.nodes {
		_, err := b.liveness.Open(t.Context(), fleet.Hello{NodeID: n, Drivers: []string{}, Inventory: fleet.Inventory{CPUs: 4, GPUs: 4}})
		require.NoError(t, err)
	}
	add := func(id, node string, gpus, slots int, released bool) {
		_, err := b.pool.Exec(t.Context(), `INSERT INTO work (id, kind, generation, fence, desired, desired_at, spec, pool, gpus, slots, owner_id,
				project_id, node_id, created_at, updated_at, released_at)
			VALUES ($1, 'engine', 1, 1, 'running', now(), '', 'cpu', $3, $4, 'u', 'p', $2, now(), now(), CASE WHEN $5 THEN now() END)`,
			id, node, gpus, slots, released)
		require.NoError(t, err)
	}
	add("wrk_1", b.nodes[0], 3, 0, false)
	add("wrk_2", b.nodes[0], 4, 0, true)
	add("wrk_3", b.nodes[0], 0, 2, false)
	add("wrk_4", b.nodes[1], 9, 99, false) // the node now reports fewer resources than its work takes
	nodes, err := store.Nodes(t.Context(), b.pool, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, [2]int{1, 30}, [2]int{nodes[0].GPUsFree, nodes[0].SlotsFree})
	require.Equal(t, [2]int{0, 0}, [2]int{nodes[1].GPUsFree, nodes[1].SlotsFree}, "free capacity must never be negative")
	fleets, err := store.List(t.Context(), b.pool, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, [3]int{2, 8, 0}, [3]int{fleets[0].Nodes, fleets[0].GPUs, fleets[0].GPUsFree})
	b.put(t, b.nodes[1], fleet.NodeLost, fleet.Active)
	fleets, err = store.List(t.Context(), b.pool, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, [3]int{2, 4, 1}, [3]int{fleets[0].Nodes, fleets[0].GPUs, fleets[0].GPUsFree}, "a lost node must have no free GPUs")
}

func TestStore_Nodes_pagingOrder(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 7)
	_, err := b.pool.Exec(t.Context(), `UPDATE node SET name = 'same' WHERE name IN ('n2', 'n3', 'n4')`)
	require.NoError(t, err)
	store, seen := fleet.Store{}, map[string]int{}
	last := ""
	for offset := 0; offset < 7; offset += 2 {
		nodes, err := store.Nodes(t.Context(), b.pool, request.Page{Limit: 2, Offset: offset})
		require.NoError(t, err)
		for i, n := range nodes {
			if i == 2 {
				break // the extra row that signals a next page
			}
			require.Less(t, last, n.Name+n.ID, "nodes must be sorted by name, then by id")
			last = n.Name + n.ID
			seen[n.ID]++
		}
	}
	require.Len(t, seen, 7)
	for node, times := range seen {
		require.Equal(t, 1, times, node)
	}
}

// Nodes are locked in the order of their ids. Two gangs that need the same nodes therefore never deadlock.
func TestStore_LockReady_noDeadlock(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 6)
	for _, n := range b.nodes {
		b.open(t, n)
	}
	done := make(chan error, 12)
	for i := range 12 {
		ids := append([]string{}, b.nodes[i%6:]...)
		ids = append(ids, b.nodes[:i%6]...)
		go func() {
			done <- pg.InTx(t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
				nodes, err := (fleet.Store{}).LockReady(ctx, tx, ids)
				if err == nil && len(nodes) != 6 {
					err = fmt.Errorf("%d nodes", len(nodes))
				}
				return err
			})
		}()
	}
	for range 12 {
		require.NoError(t, <-done)
	}
}

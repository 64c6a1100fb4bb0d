package epoch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
)

// waits returns a ledger with the given replicas, which hold leases. Calls of Await poll only when the test moves the
// clock.
func waits(t *testing.T, replicas ...string) (*epoch.Ledger, *clock.Fake) {
	t.Helper()
	l, _ := open(t, time.Hour)
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	l.Clock = clk
	for _, r := range replicas {
		_, err := l.Renew(t.Context(), r, 1)
		require.NoError(t, err)
	}
	return l, clk
}

// await calls Await for an epoch in the background and returns when the call blocks.
func await(t *testing.T, ctx context.Context, l *epoch.Ledger, clk *clock.Fake, e int64) <-chan error { //nolint:revive // t first
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- l.Await(ctx, e) }()
	require.NoError(t, clk.Await(t.Context(), 1))
	require.Empty(t, done)
	return done
}

func TestLedger_Await_endsWithLastAckOrLease(t *testing.T) {
	t.Parallel()
	late := `UPDATE inference_replica SET lease_until = clock_timestamp() - interval '1 second'`
	steps := map[string]func(ctx context.Context, l *epoch.Ledger) error{
		"woken by ack": func(ctx context.Context, l *epoch.Ledger) error {
			defer l.Hub.Wake(db.AcksTopic)
			return l.Ack(ctx, "rep_1", 2)
		},
		"woken by renewal with later epoch": func(ctx context.Context, l *epoch.Ledger) error {
			defer l.Hub.Wake(db.AcksTopic)
			_, err := l.Renew(ctx, "rep_1", 9)
			return err
		},
		"ack without wake-up": func(ctx context.Context, l *epoch.Ledger) error { return l.Ack(ctx, "rep_1", 2) },
		"lease expired":       func(ctx context.Context, l *epoch.Ledger) error { _, err := l.Pool.Exec(ctx, late); return err },
		"row deleted": func(ctx context.Context, l *epoch.Ledger) error {
			_, err := l.Pool.Exec(ctx, `DELETE FROM inference_replica`)
			return err
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, clk := waits(t, "rep_1")
			done := await(t, t.Context(), l, clk, 2)
			require.NoError(t, step(t.Context(), l))
			if !strings.HasPrefix(name, "woken") {
				clk.Advance(time.Second) // Await polls after this time.
			}
			require.NoError(t, <-done)
		})
	}
}

func TestLedger_Await_ignoresWakeUpWithoutProgress(t *testing.T) {
	t.Parallel()
	l, clk := waits(t, "rep_1", "rep_2")
	done := await(t, t.Context(), l, clk, 3)
	require.NoError(t, l.Ack(t.Context(), "rep_1", 3))
	require.NoError(t, l.Ack(t.Context(), "rep_2", 2))
	l.Hub.Wake(db.AcksTopic)
	clk.Advance(time.Second)
	behind, _, err := l.Behind(t.Context(), 3)
	require.NoError(t, err)
	require.Len(t, behind, 1, "an earlier epoch is not enough")
	require.Empty(t, done)
	require.NoError(t, l.Ack(t.Context(), "rep_2", 3))
	l.Hub.Wake(db.AcksTopic)
	clk.Advance(time.Second)
	require.NoError(t, <-done)
}

func TestLedger_Await_canceledReportsLatestLease(t *testing.T) {
	t.Parallel()
	l, clk := waits(t, "rep_1", "rep_2", "rep_3")
	until := time.Date(2099, 1, 2, 3, 4, 5, 678900000, time.UTC)
	_, err := l.Pool.Exec(t.Context(), `UPDATE inference_replica SET lease_until = $1 WHERE replica_id = 'rep_2'`, until)
	require.NoError(t, err)
	require.NoError(t, l.Ack(t.Context(), "rep_3", 2))
	ctx, cancel := context.WithCancel(t.Context())
	done := await(t, ctx, l, clk, 2)
	cancel()
	err = <-done
	require.True(t, fault.HasCode(err, "replica_unreached") && fault.Is(err, fault.Dependency), "%v", err)
	require.Contains(t, fault.From(err).Text(), "2 replica(s)")
	require.Contains(t, fault.From(err).Text(), "at 2099-01-02T03:04:05.678900+00:00", "the last lease to expire counts, not the first")
}

func TestLedger_Settle_doesNotWaitForUnreachableReplica(t *testing.T) {
	t.Parallel()
	l, clk := waits(t, "rep_1")
	require.NoError(t, l.Settle(t.Context()), "no replica is behind")
	bump(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Settle(ctx) }()
	require.NoError(t, clk.Await(t.Context(), 1))
	cancel()
	require.NoError(t, <-done, "Settle must not fail if its context ends while a replica is behind")
	require.NoError(t, l.Settle(t.Context()), "Settle must give up after settleTime")
}

func TestLedger_databaseDownConfirmsNothing(t *testing.T) {
	t.Parallel()
	l, clk := waits(t, "rep_1")
	ctx, cancel := context.WithCancel(t.Context())
	done := await(t, ctx, l, clk, 2)
	l.Pool.Close()
	clk.Advance(time.Second)
	require.Error(t, <-done)
	cancel()
	require.Error(t, l.Await(t.Context(), 2))
	require.Error(t, l.Settle(t.Context()))
	require.Error(t, l.Sweep(t.Context()))
	_, err := l.Renew(t.Context(), "rep_1", 2)
	require.Error(t, err, "a lease that is not stored is not granted")
}

func TestBump_concurrentChangesGetDistinctEpochs(t *testing.T) {
	t.Parallel()
	l, _ := waits(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var epochs []int64
	for range 12 {
		wg.Go(func() {
			e := bump(t, l)
			mu.Lock()
			defer mu.Unlock()
			epochs = append(epochs, e)
		})
	}
	wg.Wait()
	slices.Sort(epochs)
	for n, e := range epochs {
		require.EqualValues(t, n+2, e)
	}
}

func TestLedger_Renew_concurrentKeepsHighestAck(t *testing.T) {
	t.Parallel()
	l, _ := waits(t)
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() {
			_, err := l.Renew(t.Context(), fmt.Sprintf("rep_%d", n%3), int64(n+1))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	behind, _, err := l.Behind(t.Context(), 13)
	require.NoError(t, err)
	require.Len(t, behind, 3)
	for n, want := range []int64{10, 11, 12} {
		var acked int64
		require.NoError(t, l.Pool.QueryRow(t.Context(), `SELECT acked_epoch FROM inference_replica WHERE replica_id = $1`, fmt.Sprintf("rep_%d", n)).Scan(&acked))
		require.Equal(t, want, acked, "the highest epoch is kept")
	}
}

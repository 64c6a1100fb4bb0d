package epoch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
)

func TestLedger_Await_endsWhenLastLeaseReleased(t *testing.T) {
	t.Parallel()
	l, clk := waits(t, "rep_1", "rep_2")
	done := await(t, t.Context(), l, clk, 2)
	require.NoError(t, l.Release(t.Context(), []string{"rep_1"}))
	behind, _, err := l.Behind(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, behind, 1, "the other replica may still serve")
	require.Equal(t, "rep_2", behind[0].ID)
	require.NoError(t, l.Release(t.Context(), []string{"rep_2", "rep_1", "rep_2"}), "one request may name replicas twice and replicas that are already released")
	l.Hub.Wake(db.AcksTopic)
	require.NoError(t, <-done)
	require.NoError(t, l.Release(t.Context(), []string{"rep_1", "rep_2"}), "a repeated call changes nothing")
}

// A renewal that was in flight when its replica died must not restore the lease.
func TestLedger_Renew_refusedAfterRelease(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"replica with a lease": true, "first renewal arrives late": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := open(t, time.Hour)
			if known {
				_, err := l.Renew(t.Context(), "rep_1", 0)
				require.NoError(t, err)
			}
			require.NoError(t, l.Release(t.Context(), []string{"rep_1"}))
			_, err := l.Renew(t.Context(), "rep_1", 7)
			require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, epoch.CodeReleased), "%v", err)
			err = l.Ack(t.Context(), "rep_1", 7)
			require.True(t, fault.HasCode(err, epoch.CodeReleased), "%v", err)
			behind, _, err := l.Behind(t.Context(), 99)
			require.NoError(t, err)
			require.Empty(t, behind)
			_, err = l.Renew(t.Context(), "rep_2", 0)
			require.NoError(t, err, "the replica may serve again under another id")
		})
	}
}

// The renewal looks for the row of a release before the release has stored it, so only the guard in the INSERT can
// refuse the renewal.
func TestLedger_Renew_refusedByConcurrentRelease(t *testing.T) {
	t.Parallel()
	l, _ := open(t, time.Hour)
	release, err := l.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = release.Rollback(context.WithoutCancel(t.Context())) }() // no effect after the commit
	_, err = release.Exec(t.Context(), `INSERT INTO inference_replica (replica_id, acked_epoch, lease_until, released_at) VALUES ('rep_1', 0, now(), now())`)
	require.NoError(t, err)
	renewed := make(chan error, 1)
	go func() {
		_, err := l.Renew(context.WithoutCancel(t.Context()), "rep_1", 0)
		renewed <- err
	}()
	require.Eventually(t, func() bool {
		var waiting int
		require.NoError(t, l.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO inference_replica%'`).Scan(&waiting))
		return waiting == 1
	}, time.Minute, time.Millisecond)
	require.NoError(t, release.Commit(t.Context()))
	err = <-renewed
	require.True(t, fault.HasCode(err, epoch.CodeReleased), "%v", err)
}

func TestLedger_Release_winsOverConcurrentRenewals(t *testing.T) {
	t.Parallel()
	l, _ := open(t, time.Hour)
	var wg sync.WaitGroup
	for n := range 4 {
		replica := fmt.Sprintf("rep_%d", n)
		for range 4 {
			wg.Go(func() {
				if _, err := l.Renew(t.Context(), replica, 1); err != nil && !fault.HasCode(err, epoch.CodeReleased) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			// Use both orders, which would deadlock if Release locked rows in the given order.
			ids := []string{"rep_0", "rep_1", "rep_2", "rep_3"}
			if n%2 == 1 {
				ids = []string{"rep_3", "rep_2", "rep_1", "rep_0"}
			}
			if err := l.Release(t.Context(), ids); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	behind, _, err := l.Behind(t.Context(), 99)
	require.NoError(t, err)
	require.Empty(t, behind)
}

func TestLedger_Release_isAtomic(t *testing.T) {
	t.Parallel()
	l, _ := waits(t, "rep_1", "rep_2")
	locked, err := l.Pool.BeginTx(t.Context(), pgx.TxOptions{})
	require.NoError(t, err)
	_, err = locked.Exec(t.Context(), `SELECT 1 FROM inference_replica WHERE replica_id = 'rep_2' FOR UPDATE`)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, l.Release(ctx, []string{"rep_1", "rep_2"}))
	require.NoError(t, locked.Rollback(t.Context()))
	behind, _, err := l.Behind(t.Context(), 99)
	require.NoError(t, err)
	require.Len(t, behind, 2, "a failed release changes nothing and can be repeated")
}

func TestLedger_Renew_grantsLessThanStoredLease(t *testing.T) {
	t.Parallel()
	l, _ := open(t, 10*time.Minute)
	before, err := pg.Now(t.Context(), l.Pool)
	require.NoError(t, err)
	granted, err := l.Renew(t.Context(), "rep_1", 0)
	require.NoError(t, err)
	behind, _, err := l.Behind(t.Context(), 99)
	require.NoError(t, err)
	spare := behind[0].Until.Sub(before) - granted.Lease
	require.GreaterOrEqual(t, spare, 600*time.Millisecond, "each clock may be off by 500 ppm")
	require.False(t, behind[0].Until.After(before.Add(10*time.Minute+time.Hour)))
}

func TestLedger_Sweep_deletesReleasedReplicas(t *testing.T) {
	t.Parallel()
	l, _ := open(t, time.Hour)
	require.NoError(t, l.Release(t.Context(), []string{"rep_1"}))
	count := func() (n int) {
		require.NoError(t, l.Pool.QueryRow(t.Context(), `SELECT count(*) FROM inference_replica`).Scan(&n))
		return n
	}
	require.NoError(t, l.Sweep(pg.WithOffset(t.Context(), 23*time.Hour)))
	require.Equal(t, 1, count(), "the row must be kept longer than any renewal is in flight")
	require.NoError(t, l.Sweep(pg.WithOffset(t.Context(), 25*time.Hour)))
	require.Zero(t, count())
}

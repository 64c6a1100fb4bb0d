package epoch_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func open(t *testing.T, lease time.Duration) (*epoch.Ledger, *pgtest.DB) {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files})
	return &epoch.Ledger{Pool: base.Pool("registry"), Hub: pg.NewNotifyHub(), Clock: clock.Real(), Lease: lease}, base
}

func bump(t *testing.T, l *epoch.Ledger) (now int64) {
	t.Helper()
	require.NoError(t, pg.InTx(t.Context(), l.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		now, err = epoch.Bump(ctx, tx, epoch.Changes{})
		return err
	}))
	return now
}

func TestLedger_Await_allReplicasAcknowledged(t *testing.T) {
	t.Parallel()
	l, _ := open(t, time.Hour)
	require.NoError(t, l.Await(t.Context(), 99), "Await must return at once if there are no replicas")
	for _, replica := range []string{"rep_1", "rep_2"} {
		granted, err := l.Renew(t.Context(), replica, 0)
		require.NoError(t, err)
		require.Equal(t, epoch.Granted{Epoch: 1, Lease: time.Hour - time.Hour/1000}, granted, "the granted lease is shorter than the stored one")
	}
	now := bump(t, l)
	require.EqualValues(t, 2, now)
	done := make(chan error, 1)
	go func() { done <- l.Await(t.Context(), now) }()
	require.NoError(t, l.Ack(t.Context(), "rep_1", now))
	behind, _, err := l.Behind(t.Context(), now)
	require.NoError(t, err)
	require.Len(t, behind, 1)
	require.Equal(t, "rep_2", behind[0].ID)
	require.Empty(t, done)
	require.NoError(t, l.Ack(t.Context(), "rep_2", now))
	l.Hub.Wake(db.AcksTopic)
	require.NoError(t, <-done)
}

func TestLedger_Await_ignoresExpiredLease(t *testing.T) {
	t.Parallel()
	l, _ := open(t, time.Hour)
	granted, err := l.Renew(t.Context(), "rep_1", 0)
	require.NoError(t, err)
	before, after := pg.WithOffset(t.Context(), 30*time.Minute), pg.WithOffset(t.Context(), time.Hour+time.Second)
	behind, _, err := l.Behind(before, granted.Epoch+1)
	require.NoError(t, err)
	require.Len(t, behind, 1, "a replica counts as long as it may serve")
	require.NoError(t, l.Await(after, granted.Epoch+1))
	renewed, err := l.Renew(after, "rep_1", 0)
	require.NoError(t, err)
	require.Equal(t, granted, renewed, "a replica that returns may serve again")
	behind, now, err := l.Behind(after, granted.Epoch+1)
	require.NoError(t, err)
	require.Len(t, behind, 1)
	require.Greater(t, behind[0].Until.Sub(now), 30*time.Minute)
}

func TestLedger_Ack_neverDecreases(t *testing.T) {
	t.Parallel()
	l, _ := open(t, time.Hour)
	err := l.Ack(t.Context(), "rep_1", 1)
	require.True(t, fault.Is(err, fault.Refused), "only a replica with a lease may acknowledge: %v", err)
	for _, acked := range []int64{3, 1} {
		_, err := l.Renew(t.Context(), "rep_1", acked)
		require.NoError(t, err)
		require.NoError(t, l.Ack(t.Context(), "rep_1", acked))
	}
	behind, _, err := l.Behind(t.Context(), 3)
	require.NoError(t, err)
	require.Empty(t, behind)
	shorter := *l
	shorter.Lease = time.Millisecond
	_, err = shorter.Renew(t.Context(), "rep_1", 3)
	require.NoError(t, err)
	behind, now, err := l.Behind(t.Context(), 4)
	require.NoError(t, err)
	require.Len(t, behind, 1)
	require.Greater(t, behind[0].Until.Sub(now), time.Minute, "a renewal never shortens a lease")
}

func TestLedger_Sweep_deletesOldReplicas(t *testing.T) {
	t.Parallel()
	l, base := open(t, time.Hour)
	for _, replica := range []string{"rep_1", "rep_2", "rep_3"} {
		_, err := l.Renew(t.Context(), replica, 0)
		require.NoError(t, err)
	}
	owner := base.OwnerPool("registry")
	for replica, ago := range map[string]string{"rep_1": "25 hours", "rep_2": "23 hours"} {
		_, err := owner.Exec(t.Context(), `UPDATE inference_replica SET lease_until = now() - $2::interval WHERE replica_id = $1`, replica, ago)
		require.NoError(t, err)
	}
	require.NoError(t, l.Sweep(t.Context()))
	var left int
	require.NoError(t, l.Pool.QueryRow(t.Context(), `SELECT count(*) FROM inference_replica`).Scan(&left))
	require.Equal(t, 2, left)
}

func TestBump_epochsFollowCommitOrder(t *testing.T) {
	t.Parallel()
	l, _ := open(t, time.Hour)
	first, err := l.Pool.Begin(t.Context())
	require.NoError(t, err)
	a, err := epoch.Bump(t.Context(), first, epoch.Changes{})
	require.NoError(t, err)
	second := make(chan int64, 1)
	go func() { second <- bump(t, l) }()
	now, err := epoch.Current(t.Context(), l.Pool)
	require.NoError(t, err)
	require.Equal(t, a-1, now, "uncommitted changes are not visible")
	require.NoError(t, first.Rollback(t.Context()))
	require.Equal(t, a, <-second, "a rolled-back change leaves no gap")
}

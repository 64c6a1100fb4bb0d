package wake_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/services/registry/internal/wake"
)

func woken(w *wake.Waiter) bool {
	select {
	case <-w.C:
		return true
	default:
		return false
	}
}

func TestAWaiterIsWokenByItsTopicsAlone(t *testing.T) {
	t.Parallel()
	h := wake.NewHub()
	acks, both := h.Wait(wake.Acks), h.Wait(wake.Acks, wake.Snapshot)
	defer both.Close()
	h.Wake(wake.Snapshot)
	require.False(t, woken(acks))
	require.True(t, woken(both))
	for range 3 {
		h.Wake(wake.Acks)
	}
	require.True(t, woken(acks))
	require.False(t, woken(acks), "wake-ups that come while one is busy are one")
	require.True(t, woken(both))
	h.Wake(wake.All)
	require.True(t, woken(acks) && woken(both))
	acks.Close()
	h.Wake(wake.All)
	require.False(t, woken(acks), "who has gone is not woken")
	require.True(t, woken(both))
}

func TestACommitWakesEveryReplica(t *testing.T) {
	t.Parallel()
	base := pgtest.New(t, pgtest.Schema{Name: "registry"})
	pool := base.Pool("registry")
	ctx, cancel := context.WithCancel(t.Context())
	one, two := wake.NewHub(), wake.NewHub()
	ended := make(chan error, 2)
	waiters := []*wake.Waiter{one.Wait(wake.Snapshot), two.Wait(wake.Snapshot)}
	for _, h := range []*wake.Hub{one, two} {
		go func() { ended <- h.Listen(ctx, pool) }()
	}
	await := func() {
		for _, w := range waiters {
			select {
			case <-w.C:
			case <-time.After(20 * time.Second):
				t.Error("not woken")
			}
		}
	}
	await() // by the beginning
	err := pg.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := wake.Notify(ctx, tx, wake.Snapshot); err != nil {
			return err
		}
		require.False(t, woken(waiters[0]), "not before the commit")
		return nil
	})
	require.NoError(t, err)
	await()
	cancel()
	for range 2 {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

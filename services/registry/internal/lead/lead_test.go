package lead_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/services/registry/internal/lead"
)

func TestOneLeadsAtATime(t *testing.T) {
	t.Parallel()
	base := pgtest.New(t, pgtest.Schema{Name: "registry"})
	elector := func(name string) *lead.Elector {
		return &lead.Elector{Pool: base.Pool("registry"), Clock: clock.Real(), Name: name, Every: 5 * time.Millisecond}
	}
	broken := errors.New("broken")
	leads, leave, ended := make(chan int, 2), make(chan struct{}), make(chan error, 2)
	for n := range 2 {
		e := elector("watch")
		go func() {
			ended <- e.Run(t.Context(), func(context.Context) error {
				leads <- n
				<-leave
				return broken
			})
		}()
	}
	first := <-leads
	other := make(chan error, 1)
	go func() { other <- elector("sweep").Run(t.Context(), func(context.Context) error { return nil }) }()
	require.NoError(t, <-other, "another name has its own leader")
	require.Empty(t, leads)
	leave <- struct{}{}
	require.ErrorIs(t, <-ended, broken)
	require.Equal(t, 1-first, <-leads, "the next one follows")
	leave <- struct{}{}
	require.ErrorIs(t, <-ended, broken)
}

func TestALeaderWhoseConnectionBreaksStops(t *testing.T) {
	t.Parallel()
	base := pgtest.New(t, pgtest.Schema{Name: "registry"})
	e := &lead.Elector{Pool: base.Pool("registry"), Clock: clock.Real(), Name: "watch", Every: 50 * time.Millisecond}
	admin, err := pgx.Connect(t.Context(), base.AdminURL().Reveal())
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	err = e.Run(t.Context(), func(ctx context.Context) error {
		tag, err := admin.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.ErrorContains(t, err, "the lock of watch is lost")
}

func TestWaitingForATurnEndsWithItsContext(t *testing.T) {
	t.Parallel()
	base := pgtest.New(t, pgtest.Schema{Name: "registry"})
	e := &lead.Elector{Pool: base.Pool("registry"), Clock: clock.Real(), Name: "watch", Every: time.Millisecond}
	err := e.Run(t.Context(), func(ctx context.Context) error {
		waiting, stop := context.WithTimeout(ctx, 50*time.Millisecond)
		defer stop()
		require.ErrorIs(t, e.Run(waiting, func(context.Context) error { return nil }), context.DeadlineExceeded)
		return nil
	})
	require.NoError(t, err)
}

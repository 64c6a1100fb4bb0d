package lead_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pgtest"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/lead"
)

func elector(pool *pgxpool.Pool) *lead.Elector {
	return &lead.Elector{Pool: pool, Clock: clock.Real(), Name: "x", Every: 50 * time.Millisecond}
}

func TestOneLeadsAtATimeAndTheNextTakesOver(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	var leading, most atomic.Int64
	led := make(chan context.CancelFunc, 3)
	ended := make(chan struct{}, 3)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = elector(pool).Run(ctx, func(ctx context.Context) error {
				most.Store(max(most.Load(), leading.Add(1)))
				led <- cancel
				<-ctx.Done()
				leading.Add(-1)
				return nil
			})
			ended <- struct{}{}
		}()
	}
	for range 3 {
		select {
		case resign := <-led:
			require.EqualValues(t, 1, leading.Load())
			resign()
		case <-time.After(10 * time.Second):
			require.FailNow(t, "nobody took over")
		}
		<-ended
	}
	require.EqualValues(t, 1, most.Load())
}

func TestALeaderWhoseConnectionBrokeStops(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t, pgtest.Schema{Name: "jobs"}).Pool("jobs")
	started, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		stopped <- elector(pool).Run(t.Context(), func(ctx context.Context) error {
			close(started)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	<-started
	_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	require.NoError(t, err)
	select {
	case err := <-stopped:
		require.ErrorContains(t, err, "the lock of x is lost")
	case <-time.After(10 * time.Second):
		require.FailNow(t, "it leads on without the lock")
	}
}

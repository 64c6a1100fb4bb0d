package pg

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// LeaderElector makes this replica the leader for a name if no other replica is the leader.
//
// The leader holds a session lock of Postgres. The server releases the lock when the connection ends, even after
// SIGKILL. A leader whose connection broke may overlap with the next leader for a moment. The work of leaders is
// therefore guarded in SQL as well. Leadership avoids duplicate work; it does not ensure correctness. Leadership is per
// name and schema, so services that share a database do not compete.
type LeaderElector struct {
	Pool  *pgxpool.Pool
	Clock clock.Clock
	Name  string
	// Every is the interval of the attempts to take the lock, and of the checks of the connection that holds it.
	Every time.Duration
}

// Run waits until this replica is the leader and then calls the function lead with a context that ends when the
// leadership ends. Run returns when lead returns; to become the leader again, the caller must call Run again.
func (e *LeaderElector) Run(ctx context.Context, lead func(ctx context.Context) error) error {
	conn, leave, err := Detach(ctx, e.Pool)
	if err != nil {
		return fmt.Errorf("become the leader of %s: %w", e.Name, err)
	}
	defer leave()
	if err := e.acquire(ctx, conn); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.watch(ctx, conn, cancel)
	}()
	defer func() {
		cancel(nil)
		<-done
	}()
	return lead(ctx)
}

func (e *LeaderElector) acquire(ctx context.Context, conn *pgx.Conn) error {
	for {
		var got bool
		err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtext(current_schema()), $1)`, e.key()).Scan(&got)
		if err != nil {
			return fmt.Errorf("become the leader of %s: %w", e.Name, err)
		}
		if got {
			return nil
		}
		if err := clock.Sleep(ctx, e.Clock, e.Every); err != nil {
			return err
		}
	}
}

// watch ends the leadership when the connection that holds the lock stops responding.
func (e *LeaderElector) watch(ctx context.Context, conn *pgx.Conn, cancel context.CancelCauseFunc) {
	for clock.Sleep(ctx, e.Clock, e.Every) == nil {
		pctx, stop := context.WithTimeout(ctx, e.Every)
		err := conn.Ping(pctx)
		stop()
		if err != nil {
			cancel(fmt.Errorf("lost the lock of %s: %w", e.Name, err))
			return
		}
	}
}

func (e *LeaderElector) key() int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(e.Name))
	return int32(h.Sum32())
}

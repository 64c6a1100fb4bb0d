// Package lead lets one replica of a service at a time run the loops that shall run once. The leader
// holds a session lock of Postgres, which the server frees when the connection ends, also by SIGKILL. A
// leader whose connection broke may go on for a moment beside the next one, so what leaders do is
// guarded in SQL as well: leading saves work, it does not keep anything correct.
//
// A name has a leader in each schema: services that share a database do not meet.
package lead

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Elector makes this replica the leader of a name when no other one is.
type Elector struct {
	Pool  *pgxpool.Pool
	Clock clock.Clock
	Name  string
	// Every is the pause between two tries, and between two looks at the lock's connection.
	Every time.Duration
}

// Run waits for its turn, then runs lead under a context that ends with the leadership. It answers
// when the leadership is over: the caller runs it again.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context) error) error {
	conn, leave, err := pg.Apart(ctx, e.Pool)
	if err != nil {
		return fmt.Errorf("try to lead %s: %w", e.Name, err)
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

func (e *Elector) acquire(ctx context.Context, conn *pgx.Conn) error {
	for {
		var got bool
		err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtext(current_schema()), $1)`, e.key()).Scan(&got)
		if err != nil {
			return fmt.Errorf("try to lead %s: %w", e.Name, err)
		}
		if got {
			return nil
		}
		if err := clock.Sleep(ctx, e.Clock, e.Every); err != nil {
			return err
		}
	}
}

// watch ends the leadership when the connection that holds the lock does not answer.
func (e *Elector) watch(ctx context.Context, conn *pgx.Conn, cancel context.CancelCauseFunc) {
	for clock.Sleep(ctx, e.Clock, e.Every) == nil {
		pctx, stop := context.WithTimeout(ctx, e.Every)
		err := conn.Ping(pctx)
		stop()
		if err != nil {
			cancel(fmt.Errorf("the lock of %s is lost: %w", e.Name, err))
			return
		}
	}
}

func (e *Elector) key() int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(e.Name))
	return int32(h.Sum32())
}

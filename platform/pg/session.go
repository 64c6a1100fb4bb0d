package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Connect opens a connection outside of any pool. params are added to its session settings.
func Connect(ctx context.Context, url string, params map[string]string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// The error of the parser may contain the password.
		return nil, errors.New("the Postgres URL is not valid; use postgres://role:password@host:port/database")
	}
	maps.Copy(cfg.RuntimeParams, params)
	return pgx.ConnectConfig(ctx, cfg)
}

// CloseConn closes a connection even if ctx is done.
func CloseConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// AdvisoryLock takes an advisory lock that the server releases when the connection ends, also after SIGKILL. It polls
// instead of waiting in one statement: a waiting statement holds a snapshot, and a CREATE INDEX CONCURRENTLY by the
// holder of the lock would wait forever for that snapshot.
func AdvisoryLock(ctx context.Context, conn *pgx.Conn, key int64) (unlock func(), err error) {
	for {
		var got bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, key).Scan(&got); err != nil {
			return nil, fmt.Errorf("take advisory lock %d: %w", key, err)
		}
		if got {
			break
		}
		if err := clock.Sleep(ctx, clock.Real(), 25*time.Millisecond+rand.N(25*time.Millisecond)); err != nil {
			return nil, fmt.Errorf("wait for another process that changes the schema: %w", err)
		}
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, key)
	}, nil
}

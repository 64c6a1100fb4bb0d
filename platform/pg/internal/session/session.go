// Package session opens single connections to Postgres, which nothing pools, for what changes an
// installation; Lock lets one at a time do so, and the server frees it when the connection ends.
package session

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

// Connect opens one connection that nothing pools.
func Connect(ctx context.Context, url string, params map[string]string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// The parser's words may quote the password.
		return nil, errors.New("the Postgres URL cannot be read: want postgres://role:password@host:port/database")
	}
	maps.Copy(cfg.RuntimeParams, params)
	return pgx.ConnectConfig(ctx, cfg)
}

// Close closes a connection, also when ctx has ended.
func Close(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// Lock takes an advisory lock that the server frees when the connection
// ends, also by SIGKILL. It asks again and again instead of waiting in one
// statement: a waiting statement holds a snapshot, and CREATE INDEX CONCURRENTLY
// of the holder would wait for that one for ever.
func Lock(ctx context.Context, conn *pgx.Conn, key int64) (unlock func(), err error) {
	for {
		var got bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, key).Scan(&got); err != nil {
			return nil, fmt.Errorf("take the lock %d: %w", key, err)
		}
		if got {
			break
		}
		if err := clock.Sleep(ctx, clock.Real(), 25*time.Millisecond+rand.N(25*time.Millisecond)); err != nil {
			return nil, fmt.Errorf("wait for another one that changes the schema: %w", err)
		}
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, _ = conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, key)
	}, nil
}

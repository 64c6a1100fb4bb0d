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

// Connect opens a connection outside of any pool. The given parameters are added to its session settings.
func Connect(ctx context.Context, url string, params map[string]string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		// The error of the parser may contain the password.
		return nil, errors.New("the Postgres URL is not valid; use postgres://role:password@host:port/database")
	}
	RequireSCRAM(&cfg.Config)
	maps.Copy(cfg.RuntimeParams, params)
	setTracer(ctx, cfg)
	return pgx.ConnectConfig(ctx, cfg)
}

type tracerKey struct{}

// WithTracer returns a context with which Open and Connect return connections that report every statement to tracer.
// Tests use it to collect the statements that ran.
func WithTracer(ctx context.Context, tracer pgx.QueryTracer) context.Context {
	return context.WithValue(ctx, tracerKey{}, tracer)
}

// setTracer copies the tracer from ctx, if there is one, to the connection's config.
func setTracer(ctx context.Context, cfg *pgx.ConnConfig) {
	if tracer, ok := ctx.Value(tracerKey{}).(pgx.QueryTracer); ok {
		cfg.Tracer = tracer
	}
}

// CloseConn closes a connection even if ctx is done.
func CloseConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// AdvisoryLock takes an advisory lock that the server releases when the connection ends, even after SIGKILL. It polls
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

// Package pg owns how the product talks to Postgres: one schema a service, a
// role that owns it and migrates, and a role that only reads and writes rows.
// Open gives a service its pool, InTx its transactions, Classify its errors.
// What makes an installation is package role's, what brings a schema to the
// version of this binary package migrate's.
package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config says how a service reaches its schema. Zero values mean the defaults
// named below.
type Config struct {
	URL              secret.String // postgres://role:password@host:port/database
	MaxConns         int32         // 10
	StatementTimeout time.Duration // 30 s: the most that one statement may run
	IdleTimeout      time.Duration // 60 s: the most that a transaction may sit idle
	LockTimeout      time.Duration // 10 s: the most that a statement waits for a lock
	AllowUnsafe      bool          // accept a server that may lose commits; for tests
	Tracer           trace.TracerProvider
}

// ErrUnsafe is what Open answers for a server that may lose what it committed.
var ErrUnsafe = errors.New("this Postgres may lose committed rows")

var schemaName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)

// Open connects to the schema of one service and checks that the server keeps
// what it commits. The caller closes the pool.
func Open(ctx context.Context, cfg Config, schema string, log *slog.Logger) (*pgxpool.Pool, error) {
	pc, err := poolConfig(ctx, cfg, schema, log)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open the pool of %s: %w", schema, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to the schema %s: %w", schema, err)
	}
	if cfg.AllowUnsafe {
		return pool, nil
	}
	if err := checkDurable(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

func poolConfig(ctx context.Context, cfg Config, schema string, log *slog.Logger) (*pgxpool.Config, error) {
	if !schemaName.MatchString(schema) {
		return nil, fmt.Errorf("schema name %q: want lower-case letters, digits and _", schema)
	}
	pc, err := pgxpool.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, errors.New("the Postgres URL cannot be read: want postgres://role:password@host:port/database")
	}
	pc.MaxConns = or(cfg.MaxConns, 10)
	pc.MaxConnIdleTime = 5 * time.Minute
	pc.MaxConnLifetime = time.Hour
	pc.MaxConnLifetimeJitter = 10 * time.Minute
	params := pc.ConnConfig.RuntimeParams
	params["search_path"] = schema
	params["application_name"] = "signalbox-" + schema
	params["timezone"] = "UTC"
	params["statement_timeout"] = millis(or(cfg.StatementTimeout, 30*time.Second))
	params["idle_in_transaction_session_timeout"] = millis(or(cfg.IdleTimeout, time.Minute))
	params["lock_timeout"] = millis(or(cfg.LockTimeout, 10*time.Second))
	notices := context.WithoutCancel(ctx)
	pc.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		log.DebugContext(notices, "postgres notice", "schema", schema, "code", n.Code, "notice", n.Message)
	}
	if cfg.Tracer != nil {
		pc.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(cfg.Tracer),
			otelpgx.WithDisableConnectionDetailsInAttributes())
	}
	pc.AfterConnect = inUTC
	return pc, nil
}

// inUTC makes every timestamptz come back in UTC, as clock.Clock gives them.
func inUTC(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return nil
}

func checkDurable(ctx context.Context, q Querier) error {
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		var value string
		if err := q.QueryRow(ctx, `SELECT current_setting($1)`, setting).Scan(&value); err != nil {
			return fmt.Errorf("read the server's setting %s: %w", setting, err)
		}
		if value == "off" {
			return fmt.Errorf("%w: its setting %s is off; turn it on", ErrUnsafe, setting)
		}
	}
	return nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func or[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

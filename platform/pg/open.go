// Package pg owns the access to Postgres. Each service has a schema, a role that owns and migrates it, and a role that
// only reads and writes rows; package migrate creates all of them. Open returns the pool of a service, InTx runs
// transactions, One and All read rows, and Classify converts errors. CheckLocale warns of a poor locale. Durability refuses writes while the server may lose
// committed rows.
//
// Notify and NotifyHub wake goroutines on all replicas of a service when rows change. LeaderElector runs a function
// on one replica at a time. Reseal re-encrypts columns with a new key. Connect opens single connections for programs
// that change an installation. AdvisoryLock lets only one of these programs run at a time.
package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Config describes how a service connects to its schema. A zero value means the default that is given in the comment.
type Config struct {
	URL              secret.String // postgres://role:password@host:port/database
	MaxConns         int32         // 10
	StatementTimeout time.Duration // 30 s: limit for one statement
	IdleTimeout      time.Duration // 60 s: limit for an idle transaction
	LockTimeout      time.Duration // 10 s: limit for waiting for a lock
	AllowUnsafe      bool          // accept a server that may lose commits; for tests
	Tracer           trace.TracerProvider
	// Durability refuses writes while the server may lose commits. If it is nil, the server is checked only
	// once, by Open.
	Durability *Durability
}

// ErrUnsafe is the error of Open for a server that may lose committed transactions.
var ErrUnsafe = errors.New("the Postgres server may lose committed rows")

var schemaName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)

// Open connects to the schema of a service and checks that the server commits durably. The caller must close the
// pool.
func Open(ctx context.Context, cfg Config, schema string, log *slog.Logger) (*pgxpool.Pool, error) {
	pc, err := poolConfig(ctx, cfg, schema, log)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open the pool of schema %s: %w", schema, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to schema %s: %w", schema, err)
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
		return nil, fmt.Errorf("schema name %q is not valid; use at most 31 lower-case letters, digits and _, "+
			"starting with a letter", schema)
	}
	pc, err := pgxpool.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, errors.New("the Postgres URL is not valid; use postgres://role:password@host:port/database")
	}
	RequireSCRAM(&pc.ConnConfig.Config)
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
	if !cfg.AllowUnsafe {
		// A parameter of the connection takes precedence over ALTER SYSTEM, ALTER DATABASE and ALTER ROLE.
		params["synchronous_commit"] = "on"
	}
	notices := context.WithoutCancel(ctx)
	pc.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		log.DebugContext(notices, "postgres notice", "schema", schema, "code", n.Code, "notice", n.Message)
	}
	if cfg.Tracer != nil {
		pc.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(cfg.Tracer),
			otelpgx.WithDisableConnectionDetailsInAttributes())
	}
	setTracer(ctx, pc.ConnConfig)
	pc.AfterConnect = inUTC
	if cfg.Durability != nil {
		pc.PrepareConn = cfg.Durability.prepare
	}
	return pc, nil
}

// inUTC makes the connection return every timestamptz in UTC, as clock.Clock does.
func inUTC(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return nil
}

func checkDurable(ctx context.Context, q Querier) error {
	off, err := unsafeSettings(ctx, q)
	if err != nil {
		return err
	}
	if len(off) > 0 {
		return fmt.Errorf("%w: turn on its settings %s", ErrUnsafe, strings.Join(off, ", "))
	}
	return nil
}

// CheckLocale warns if the locale of the database has no letters outside ASCII. Everything works then, but search does not
// find similar names in Chinese, and ignores the case of ASCII letters only. The locale of a database cannot be changed,
// so the warning names the page that describes how to move the data.
func CheckLocale(ctx context.Context, q Querier, log *slog.Logger) error {
	var locale string
	var letters bool
	err := q.QueryRow(ctx, `SELECT datctype, '模型' ~ '^[[:alpha:]]+$' FROM pg_database WHERE datname = current_database()`).Scan(&locale, &letters)
	if err != nil {
		return fmt.Errorf("read the locale of the database: %w", err)
	}
	if !letters {
		log.WarnContext(ctx, "the locale of the database has no letters outside ASCII, so search finds fewer names in other scripts; "+
			`move the data to a database with LC_CTYPE C.UTF-8, as docs/reference/operating.md describes under "Locale of the database"`,
			"lc_ctype", locale)
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

// RequireSCRAM lets connections authenticate only by SCRAM. The password is then never sent, and the server has to
// prove that it knows the password too: another program that has taken the port of the server learns nothing and
// receives no statement. A URL with the parameter require_auth keeps its value. A URL without a password needs no
// protection.
func RequireSCRAM(cfg *pgconn.Config) {
	if cfg.RequireAuth == "" && cfg.Password != "" {
		cfg.RequireAuth = "scram-sha-256"
	}
}

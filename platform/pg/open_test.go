package pg_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestOpen_serverThatMayLoseCommits(t *testing.T) {
	t.Parallel()
	bin, err := local.Find("", "../../.cache/postgres")
	require.NoError(t, err)
	for unsafe, want := range map[bool]error{true: pg.ErrUnsafe, false: nil} {
		dir := t.TempDir()
		pgtest.Cluster(t, dir)
		server, err := local.Start(t.Context(), local.Config{BinDir: bin, Dir: dir, Unsafe: unsafe})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
		pool, err := pg.Open(pgtest.Context(t), pg.Config{URL: server.AdminURL()}, "public", quiet())
		require.ErrorIs(t, err, want)
		if err == nil {
			pool.Close()
		}
	}
}

func TestOpen_sessionSettings(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"})
	pool := db.Pool("jobs")
	for setting, want := range map[string]string{
		"search_path": "jobs", "TimeZone": "UTC", "statement_timeout": "30s", "lock_timeout": "10s",
		"idle_in_transaction_session_timeout": "1min", "application_name": "signalbox-jobs",
	} {
		var got string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_setting($1)`, setting).Scan(&got))
		require.Equal(t, want, got, setting)
	}
	var at time.Time
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT '2026-11-21 03:00:00.123456+05'::timestamptz`).Scan(&at))
	require.Equal(t, time.Date(2026, 11, 20, 22, 0, 0, 123456000, time.UTC), at)
}

func TestOpen_statementTimeoutIsUnavailable(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"})
	pool, err := pg.Open(pgtest.Context(t), pg.Config{URL: db.URL("jobs"), AllowUnsafe: true, StatementTimeout: 20 * time.Second}, "jobs", quiet())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	var limit string
	require.NoError(t, pool.QueryRow(t.Context(), `SHOW statement_timeout`).Scan(&limit))
	require.Equal(t, "20s", limit)
	err = pg.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 1`)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, `SELECT pg_sleep(3600)`)
		return err
	})
	require.True(t, fault.HasCode(pg.Classify(err), "database_timeout"), "%v", err)
}

func TestOpen_errorHidesPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:hunter2@127.0.0.1:1/x", "postgres://u:hunter2@:bad:/", "host=x password=hunter2 port=y"} {
		_, err := pg.Open(t.Context(), pg.Config{URL: secret.New(url)}, "jobs", quiet())
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hunter2", url)
	}
	_, err := pg.Open(t.Context(), pg.Config{}, `jobs"; DROP`, quiet())
	require.ErrorContains(t, err, "schema name")
}

func TestOpen_unreachableServerIsUnavailable(t *testing.T) {
	t.Parallel()
	_, err := pg.Open(t.Context(), pg.Config{URL: secret.New("postgres://u:p@127.0.0.1:1/x")}, "jobs", quiet())
	require.True(t, fault.Is(pg.Classify(err), fault.Unavailable), "%v", err)
}

func TestOpen_statementsAreTraced(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"})
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	pool, err := pg.Open(t.Context(), pg.Config{URL: db.URL("jobs"), AllowUnsafe: true, Tracer: provider}, "jobs", quiet())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	_, err = pool.Exec(ctx, `SELECT id FROM event WHERE id = $1`, "a secret value")
	require.NoError(t, err)
	request.End()
	found := false
	for _, span := range spans.GetSpans() {
		for _, attr := range span.Attributes {
			found = found || strings.Contains(attr.Value.String(), "FROM event")
			require.NotContains(t, attr.Value.String(), "a secret value", "arguments must not appear in traces")
		}
	}
	require.True(t, found)
}

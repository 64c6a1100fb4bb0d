package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// supervise calls Run. The returned function stops it and returns its error.
func supervise(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// awaitRow polls until a query on the server returns a row.
func awaitRow(t *testing.T, s *Server, sql string) string {
	t.Helper()
	var out string
	require.Eventually(t, func() bool {
		conn, err := pgx.Connect(t.Context(), s.AdminURL().Reveal())
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close(context.Background()) }()
		return conn.QueryRow(t.Context(), sql).Scan(&out) == nil
	}, time.Minute, 10*time.Millisecond)
	return out
}

func TestServer_Run_restartsKilledServer(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	reader := sdkmetric.NewManualReader()
	cfg.Unsafe, cfg.Meter = false, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	s := begin(t, cfg)
	execute(t, s, `CREATE TABLE kept (n integer)`)
	stop := supervise(t, s)
	url := s.AdminURL().Reveal()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	for n, want := range []string{"1", "2", "3"} {
		_, err := conn.Exec(t.Context(), `INSERT INTO kept VALUES ($1)`, n)
		require.NoError(t, err)
		pid := s.PID()
		exited := s.Exited()
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		<-exited
		require.Equal(t, want, awaitRow(t, s, `SELECT count(*)::text FROM kept`), "no committed row is lost")
		require.Eventually(t, func() bool { return s.PID() != pid }, time.Minute, 5*time.Millisecond)
		require.Equal(t, url, s.AdminURL().Reveal(), "clients keep their URL")
		conn, err = pgx.Connect(t.Context(), url)
		require.NoError(t, err)
	}
	require.NoError(t, stop())
	require.False(t, alive(s.PID()))
	var seen metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &seen))
	restarts := seen.ScopeMetrics[0].Metrics[0]
	require.Equal(t, "postgres_restarts_total", restarts.Name)
	require.EqualValues(t, 3, restarts.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
	require.Equal(t, "3", query(t, begin(t, cfg), `SELECT count(*)::text FROM kept`), "the folder is not locked")
}

func TestServer_Run_failsIfServerCannotStart(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	s := begin(t, cfg)
	s.limit = 5 * time.Second
	conf := filepath.Join(cfg.Dir, "data", "postgresql.conf")
	right, err := os.ReadFile(conf)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(conf, []byte("no_such_setting = 1\n"), 0o600))
	require.NoError(t, syscall.Kill(s.PID(), syscall.SIGKILL))
	err = s.Run(t.Context())
	require.ErrorContains(t, err, "postgres exited unexpectedly (signal: killed)")
	require.ErrorContains(t, err, "no_such_setting")
	require.NoError(t, os.WriteFile(conf, right, 0o600))
	require.Equal(t, "1", query(t, begin(t, cfg), `SELECT '1'`), "the folder is not locked")
}

func TestServer_Run_stopsDuringRestart(t *testing.T) {
	t.Parallel()
	cfg := existing(t)
	s := begin(t, cfg)
	conf := filepath.Join(cfg.Dir, "data", "postgresql.conf")
	require.NoError(t, os.WriteFile(conf, []byte("no_such_setting = 1\n"), 0o600))
	stop := supervise(t, s)
	require.NoError(t, syscall.Kill(s.PID(), syscall.SIGKILL))
	require.Eventually(t, func() bool {
		log, err := os.ReadFile(filepath.Join(cfg.Dir, "postgres.log"))
		require.NoError(t, err)
		return strings.Contains(string(log), "no_such_setting")
	}, time.Minute, 5*time.Millisecond, "the server was started again")
	require.NoError(t, stop())
	require.False(t, alive(s.PID()))
}

package pg_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// durabilityHarness is a server whose durability settings can be changed, and a pool that watches them.
type durabilityHarness struct {
	t      *testing.T
	pool   *pgxpool.Pool
	watch  *pg.Durability
	reader *sdkmetric.ManualReader
	log    *strings.Builder
	// recorded holds the settings passed to record. failing makes the next call of record fail.
	recorded []string
	failing  error
}

func newDurabilityHarness(t *testing.T) *durabilityHarness {
	t.Helper()
	bin, err := local.Find("", "../../.cache/postgres")
	require.NoError(t, err)
	dir := t.TempDir()
	pgtest.Cluster(t, dir)
	server, err := local.Start(t.Context(), local.Config{BinDir: bin, Dir: dir, Tunable: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	h := &durabilityHarness{t: t, reader: sdkmetric.NewManualReader(), log: &strings.Builder{}}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(h.reader))
	h.watch, err = pg.NewDurability("public", slog.New(slog.NewTextHandler(h.log, nil)), meters, h.record)
	require.NoError(t, err)
	h.pool, err = pg.Open(pgtest.Context(t), pg.Config{URL: server.AdminURL(), Durability: h.watch}, "public", quiet())
	require.NoError(t, err)
	t.Cleanup(h.pool.Close)
	h.execute(`CREATE TABLE kept (n integer)`)
	return h
}

// record writes a change into the table, as services do.
func (h *durabilityHarness) record(ctx context.Context, off []string) error {
	if err := h.failing; err != nil {
		h.failing = nil
		return err
	}
	h.recorded = append(h.recorded, strings.Join(off, ", "))
	return pg.InTx(ctx, h.pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := pg.AllowWrites(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO kept VALUES (9)`)
		return err
	})
}

func (h *durabilityHarness) execute(sql string) {
	h.t.Helper()
	_, err := h.pool.Exec(h.t.Context(), sql)
	require.NoError(h.t, err)
}

// alter changes the server with a statement, which works even while the pool refuses writes.
func (h *durabilityHarness) alter(sql string) {
	h.t.Helper()
	conn, err := pgx.ConnectConfig(h.t.Context(), h.pool.Config().ConnConfig)
	require.NoError(h.t, err)
	defer pg.CloseConn(h.t.Context(), conn)
	_, err = conn.Exec(h.t.Context(), sql)
	require.NoError(h.t, err)
	_, err = conn.Exec(h.t.Context(), `SELECT pg_reload_conf()`)
	require.NoError(h.t, err)
}

// check checks the settings until the log contains the text, because the server reloads its settings in the background.
func (h *durabilityHarness) check(text string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		require.NoError(h.t, h.watch.Check(h.t.Context(), h.pool))
		return strings.Contains(h.log.String(), text)
	}, time.Minute, time.Millisecond)
}

func (h *durabilityHarness) write() error {
	return pg.InTx(h.t.Context(), h.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO kept VALUES (1)`)
		return err
	})
}

// gauge returns the last value of database_durable.
func (h *durabilityHarness) gauge() int64 {
	h.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(h.t, h.reader.Collect(h.t.Context(), &all))
	require.Len(h.t, all.ScopeMetrics, 1)
	m := all.ScopeMetrics[0].Metrics[0]
	require.Equal(h.t, "database_durable", m.Name)
	return m.Data.(metricdata.Gauge[int64]).DataPoints[0].Value
}

func TestDurability_refusesWritesWhileSettingIsOff(t *testing.T) {
	t.Parallel()
	h := newDurabilityHarness(t)
	for _, setting := range []string{"fsync", "full_page_writes"} {
		h.log.Reset()
		require.NoError(t, h.write())
		held, err := h.pool.Acquire(t.Context())
		require.NoError(t, err)
		h.alter(`ALTER SYSTEM SET ` + setting + ` = off`)
		h.check("writes are refused")
		held.Release() // a connection that was in use refuses writes when it is used next
		require.Contains(t, h.log.String(), "off="+setting)
		require.EqualValues(t, 0, h.gauge())
		for range 2 {
			err := pg.Classify(h.write())
			require.True(t, fault.HasCode(err, "database_read_only"), "%v", err)
			require.True(t, fault.Is(err, fault.Unavailable))
			_, err = h.pool.Exec(t.Context(), `UPDATE kept SET n = 2`)
			require.True(t, fault.HasCode(pg.Classify(err), "database_read_only"), "%v", err)
			var n int
			require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT count(*) FROM kept`).Scan(&n), "reads continue")
			h.pool.Reset() // new connections refuse writes too
		}
		h.alter(`ALTER SYSTEM RESET ` + setting)
		h.check("writes are allowed")
		require.EqualValues(t, 1, h.gauge())
		require.NoError(t, h.write())
	}
}

func TestDurability_Check_recordsEachChangeOnce(t *testing.T) {
	t.Parallel()
	h := newDurabilityHarness(t)
	h.alter(`ALTER SYSTEM SET fsync = off`)
	h.failing = context.DeadlineExceeded
	require.Eventually(t, func() bool { return errors.Is(h.watch.Check(t.Context(), h.pool), context.DeadlineExceeded) }, time.Minute, time.Millisecond)
	require.True(t, fault.HasCode(pg.Classify(h.write()), "database_read_only"), "writes are refused even if the change could not be recorded")
	for range 2 {
		require.NoError(t, h.watch.Check(t.Context(), h.pool))
		require.Equal(t, []string{"fsync"}, h.recorded)
	}
	require.True(t, fault.HasCode(pg.Classify(h.write()), "database_read_only"), "only record may write")
	h.alter(`ALTER SYSTEM RESET fsync`)
	h.check("writes are allowed")
	require.Equal(t, []string{"fsync", ""}, h.recorded)
	var n int
	require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT count(*) FROM kept`).Scan(&n))
	require.Equal(t, 2, n)
}

func TestDurability_Check_withoutServerChangesNothing(t *testing.T) {
	t.Parallel()
	h := newDurabilityHarness(t)
	h.alter(`ALTER SYSTEM SET fsync = off`)
	h.check("writes are refused")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, h.watch.Check(ctx, h.pool))
	require.True(t, fault.HasCode(pg.Classify(h.write()), "database_read_only"))
}

func TestDurability_Run_checksRepeatedly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		meters := sdkmetric.NewMeterProvider()
		d, err := pg.NewDurability("public", quiet(), meters, nil)
		require.NoError(t, err)
		asked := &atomic.Int64{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx, clock.Real(), countingQuerier{asked: asked}) }()
		synctest.Wait()
		require.EqualValues(t, 1, asked.Load())
		require.NoError(t, clock.Sleep(t.Context(), clock.Real(), 3*pg.DurabilityEvery))
		synctest.Wait()
		require.EqualValues(t, 4, asked.Load())
		cancel()
		require.NoError(t, <-done)
	})
}

// countingQuerier counts queries and fails them.
type countingQuerier struct {
	pg.Querier
	asked *atomic.Int64
}

func (q countingQuerier) Query(context.Context, string, ...any) (pgx.Rows, error) {
	q.asked.Add(1)
	return nil, context.DeadlineExceeded
}

// No setting of the server, the database or the role turns synchronous_commit off for a pool.
func TestOpen_synchronousCommitCannotBeTurnedOff(t *testing.T) {
	t.Parallel()
	h := newDurabilityHarness(t)
	for name, sql := range map[string]string{
		"system":            `ALTER SYSTEM SET synchronous_commit = off`,
		"database":          `ALTER DATABASE postgres SET synchronous_commit = off`,
		"role":              `ALTER ROLE postgres SET synchronous_commit = off`,
		"role and database": `ALTER ROLE postgres IN DATABASE postgres SET synchronous_commit = off`,
	} {
		h.alter(sql)
		for range 2 {
			var value string
			require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT current_setting('synchronous_commit')`).Scan(&value))
			require.Equal(t, "on", value, name)
			h.pool.Reset()
		}
		require.NoError(t, h.watch.Check(t.Context(), h.pool))
		require.NoError(t, h.write(), name)
	}
	plain, err := pgx.Connect(t.Context(), h.pool.Config().ConnConfig.ConnString())
	require.NoError(t, err)
	defer pg.CloseConn(t.Context(), plain)
	var value string
	require.NoError(t, plain.QueryRow(t.Context(), `SELECT current_setting('synchronous_commit')`).Scan(&value))
	require.Equal(t, "off", value, "other connections show that the changes took effect")
}

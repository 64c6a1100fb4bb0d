package ingest

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// retentionHarness is a retention with a fake clock and a database.
type retentionHarness struct {
	*retention
	t     *testing.T
	clock *clock.Fake
	log   bytes.Buffer
	meter *sdkmetric.ManualReader
}

func openRetention(t *testing.T, age time.Duration) *retentionHarness {
	t.Helper()
	files, err := Migrations()
	require.NoError(t, err)
	h := &retentionHarness{t: t, clock: clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), meter: sdkmetric.NewManualReader()}
	h.retention, err = newRetention(Deps{
		Pool: pgtest.New(t, pgtest.Schema{Name: Name, Migrations: files}).Pool(Name), Clock: h.clock,
		Log: slog.New(slog.NewJSONHandler(&h.log, nil)), Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(h.meter)),
	}, age)
	require.NoError(t, err)
	return h
}

// add stores digests of the given age.
func (h *retentionHarness) add(writer string, rows int, age time.Duration) {
	h.t.Helper()
	_, err := h.deps.Pool.Exec(h.t.Context(), `INSERT INTO request_digest (run_id, stream, writer, seq, digest, created_at)
		SELECT 'run_1', 'logs', $1, n, '', $3 FROM generate_series(1, $2) n`, writer, rows, h.clock.Now().Add(-age))
	require.NoError(h.t, err)
}

// left returns the number of digests, once the retention waits.
func (h *retentionHarness) left() (n int) {
	h.t.Helper()
	require.NoError(h.t, h.clock.Await(h.t.Context(), 1))
	require.NoError(h.t, h.deps.Pool.QueryRow(h.t.Context(), `SELECT count(*) FROM request_digest`).Scan(&n))
	return n
}

func TestRetention_run_boundedStepsUntilNoneIsPastItsAge(t *testing.T) {
	t.Parallel()
	const age = 30 * 24 * time.Hour
	h := openRetention(t, age)
	h.add("old", 2*retentionRows+500, age+time.Second)
	h.add("soon", 10, age-retentionEvery/2)
	h.add("new", 5, 0)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = h.run(ctx) })
	for _, left := range []int{retentionRows + 515, 515, 15, 15} {
		require.Equal(t, left, h.left(), "a step deletes at most %d rows", retentionRows)
		h.clock.Advance(retentionPause)
	}
	require.Equal(t, 15, h.left(), "the pass is over")
	h.clock.Advance(retentionEvery + retentionJitter)
	require.Equal(t, 5, h.left(), "the next pass deletes what has reached its age meanwhile")
	stop()
	running.Wait()
	require.Contains(t, h.log.String(), `"kind":"request digest","rows":2500`)
	var data metricdata.ResourceMetrics
	require.NoError(t, h.meter.Collect(t.Context(), &data))
	found := data.ScopeMetrics[0].Metrics[0]
	require.Equal(t, "retention_deleted_total", found.Name)
	require.EqualValues(t, 2510, found.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
}

func TestRetention_run_ageZeroKeepsAll(t *testing.T) {
	t.Parallel()
	h := openRetention(t, 0)
	h.add("old", 3, 1000*24*time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = h.run(ctx) })
	require.Equal(t, 3, h.left())
	stop()
	running.Wait()
}

func TestConfig_Validate_ages(t *testing.T) {
	t.Parallel()
	require.NoError(t, (&Config{DigestDays: 0}).Validate())
	require.NoError(t, (&Config{DigestDays: 30}).Validate())
	require.ErrorContains(t, (&Config{DigestDays: -1}).Validate(), "SERVICE_INGEST_DIGEST_DAYS")
}

package retention_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// rows is a table whose rows can be deleted. It records the arguments of each step.
type rows struct {
	left   int
	limits []int
	before time.Time
}

func (r *rows) step(ctx context.Context, before time.Time, limit int) (int64, error) {
	if _, ok := ctx.Deadline(); !ok {
		return 0, errors.New("the step has no deadline")
	}
	r.before, r.limits = before, append(r.limits, limit)
	n := min(r.left, limit)
	r.left -= n
	return int64(n), nil
}

func TestWorker_RunOnce_boundedSteps(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	reader := sdkmetric.NewManualReader()
	old, kept := &rows{left: 2500}, &rows{left: 1}
	// The pauses between steps use the clock of the worker, so the test uses the real one.
	w, err := retention.New(clock.Real(), slog.New(slog.NewJSONHandler(&out, nil)), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		retention.Rule{Name: "event", Age: time.Hour, Step: old.step}, retention.Rule{Name: "call", Step: kept.step})
	require.NoError(t, err)
	require.NoError(t, w.RunOnce(t.Context()))
	require.Equal(t, []int{1000, 1000, 1000, 1000}, old.limits)
	require.Zero(t, old.left)
	require.WithinDuration(t, time.Now().Add(-time.Hour), old.before, time.Minute)
	require.Empty(t, kept.limits, "without an age, everything is kept")
	require.Contains(t, out.String(), `"kind":"event","rows":2500`)
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	found := data.ScopeMetrics[0].Metrics[0]
	require.Equal(t, "retention_deleted_total", found.Name)
	require.Equal(t, int64(2500), found.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
}

func TestWorker_RunOnce_failedRuleDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	old := &rows{}
	w, err := retention.New(clock.NewFake(fixtures.Now()), slog.New(slog.DiscardHandler), nil,
		retention.Rule{Name: "event", Age: time.Hour, Step: func(context.Context, time.Time, int) (int64, error) { return 0, boom }},
		retention.Rule{Name: "call", Age: time.Hour, Step: old.step})
	require.NoError(t, err)
	err = w.RunOnce(t.Context())
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, "delete old rows of event")
	require.Equal(t, fixtures.Now().Add(-time.Hour), old.before)
}

func TestWorker_Run_shortAgeMeansFrequentPasses(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(fixtures.Now())
	passes := make(chan struct{}, 1)
	w, err := retention.New(clk, slog.New(slog.DiscardHandler), nil, retention.Rule{
		Name: "event", Age: retention.Days(10.0 / 24 / 60), Step: func(context.Context, time.Time, int) (int64, error) {
			passes <- struct{}{}
			return 0, nil
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-passes
	// With an age of ten minutes, twenty passes are made in that time. The next pass is therefore due 30 to 35 seconds
	// after the loop begins to wait.
	again := func() bool {
		clk.Advance(35 * time.Second)
		select {
		case <-passes:
			return true
		default:
			return false
		}
	}
	require.Eventually(t, again, time.Minute, time.Millisecond)
	require.Less(t, clk.Now().Sub(fixtures.Now()), time.Hour)
	cancel()
	require.NoError(t, <-ended)
}

func TestWorker_Run_warnsOfShortAge(t *testing.T) {
	t.Parallel()
	for age, warned := range map[time.Duration]bool{0: false, 23 * time.Hour: true, 24 * time.Hour: false} {
		var log bytes.Buffer
		w, err := retention.New(clock.NewFake(fixtures.Now()), slog.New(slog.NewTextHandler(&log, nil)), nil,
			retention.Rule{Name: "unused object", Age: age, Least: retention.LeastObjects, Step: (&rows{}).step})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, w.Run(ctx))
		require.Equal(t, warned, strings.Contains(log.String(), "for tests only"), age)
	}
}

func TestCheckDays(t *testing.T) {
	t.Parallel()
	for _, n := range []float64{0, 0.001, 1, 36_500} {
		require.NoError(t, retention.CheckDays("SERVICE_X_DAYS", n))
	}
	for _, n := range []float64{-1, 36_501, math.NaN(), math.Inf(1)} {
		require.ErrorContains(t, retention.CheckDays("SERVICE_X_DAYS", n), "SERVICE_X_DAYS")
	}
}

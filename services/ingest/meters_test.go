package ingest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-dev/signalbox/services/ingest"
)

// observed returns the number and the sum of the observations of a histogram.
func observed(t *testing.T, reader sdkmetric.Reader, name string) (n uint64, sum float64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == name {
				require.Len(t, data.DataPoints, 1)
				n, sum = data.DataPoints[0].Count, data.DataPoints[0].Sum
			}
		}
	}
	return n, sum
}

// The lag is the age of the newest point of a report. Repeats and imported history have none, and a clock that is ahead gives 0.
func TestMeters_lagAndCommits(t *testing.T) {
	t.Parallel()
	h, reader := open(t), sdkmetric.NewManualReader()
	h.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	run := h.replica(ingest.Config{}).train()
	aged := func(ages ...time.Duration) string {
		body := `"points":[`
		for i, age := range ages {
			if i > 0 {
				body += ","
			}
			body += fmt.Sprintf(`{"key":"loss","step":%d,"value":1,"ts":%q}`, i, h.clock.Now().Add(-age).UTC().Format(time.RFC3339Nano))
		}
		return body + `]`
	}
	late := aged(3*time.Hour, time.Hour, 2*time.Hour)
	run.post("metrics", "w:1", late)
	n, sum := observed(t, reader, "ingest_lag_seconds")
	require.EqualValues(t, 1, n)
	require.InDelta(t, 3600, sum, 300)

	run.post("metrics", "w:1", late)
	run.post("metrics", "w:3", aged(7*time.Hour))
	run.post("logs", "w:1", `"chunks":["a line\n"]`)
	run.post("metrics", "w:2", aged(-time.Hour))
	n, after := observed(t, reader, "ingest_lag_seconds")
	require.EqualValues(t, 2, n, "a repeat, a log and imported history have no lag")
	require.InDelta(t, sum, after, 0)
	commits, seconds := observed(t, reader, "ingest_commit_seconds")
	require.EqualValues(t, 5, commits)
	require.Positive(t, seconds)
}

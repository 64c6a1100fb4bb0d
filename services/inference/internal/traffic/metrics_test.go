package traffic_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

func TestCallMetricsCounters(t *testing.T) {
	t.Parallel()
	reader := sdk.NewManualReader()
	c, err := traffic.NewCallMetrics(t.Context(), sdk.NewMeterProvider(sdk.WithReader(reader)), nil, always)
	require.NoError(t, err)
	for range 2 {
		f := c.Begin(t.Context(), "dep_a", traffic.Fast)
		f.Done(&traffic.Call{Outcome: traffic.OK})
		f.End()
	}
	c.Rejected(t.Context(), "token_invalid")
	c.Spilled(t.Context(), 5)
	c.Dropped(t.Context(), 7)
	var out metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &out))
	got := map[string]int64{}
	for _, m := range out.ScopeMetrics[0].Metrics {
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			key := m.Name
			for _, a := range p.Attributes.ToSlice() {
				key += " " + string(a.Key) + "=" + a.Value.AsString()
			}
			got[key] += p.Value
		}
	}
	require.Equal(t, map[string]int64{
		"inference_calls_relayed_total way=fast": 2, "inference_calls_relayed_total way=usual": 0, "inference_rejected_total reason=token_invalid": 1,
		"traffic_spilled_total": 5, "traffic_dropped_total": 7,
	}, got)
}

func TestCallMetricsWithoutMeter(t *testing.T) {
	t.Parallel()
	c, err := traffic.NewCallMetrics(t.Context(), nil, nil, always)
	require.NoError(t, err)
	f := c.Begin(t.Context(), "dep_a", traffic.Usual)
	f.Done(&traffic.Call{Outcome: traffic.OK})
	f.End()
	c.Rejected(t.Context(), "x")
}

package traffic_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/obs"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// always reports that each deployment exists.
func always(string) bool { return true }

// gather returns the values of all metrics of deployments, keyed by name and deployment id. The key of a bucket ends with
// its upper bound.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			require.Equal(t, "deployment_id", m.GetLabel()[0].GetName())
			key := f.GetName() + " " + m.GetLabel()[0].GetValue()
			if m.GetCounter() != nil {
				require.Contains(t, []string{"outcome", "kind"}, m.GetLabel()[1].GetName())
				out[key+" "+m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
				continue
			}
			require.Len(t, m.GetLabel(), 1)
			h := m.GetHistogram()
			if h == nil {
				out[key] = m.GetGauge().GetValue()
				continue
			}
			out[key+" count"], out[key+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
			for _, b := range h.GetBucket() {
				out[fmt.Sprintf("%s %g", key, b.GetUpperBound())] = float64(b.GetCumulativeCount())
			}
		}
	}
	return out
}

const (
	calls    = "inference_calls_total "
	duration = "inference_call_duration_seconds "
	first    = "inference_time_to_first_token_seconds "
	inFlight = "inference_calls_in_flight "
	tokens   = "inference_tokens_total "
)

func TestCallsMeasuredByDeployment(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	c, err := traffic.NewCallMetrics(t.Context(), nil, registry, always)
	require.NoError(t, err)
	call := func(id string, durationMS float64, ttft *float64) {
		f := c.Begin(t.Context(), id, traffic.Fast)
		defer f.End()
		f.Done(&traffic.Call{
			Method: http.MethodPost, Status: 200, Outcome: traffic.OK, Duration: durationMS, TTFT: ttft, PromptTokens: new(int32(7)), CompletionTokens: new(int32(2)),
		})
	}
	call("dep_a", 250, new(20.0))
	call("dep_a", 251, new(2_000.0))
	call("dep_a", 601_000, nil) // beyond the last bucket
	call("dep_b", 1, new(0.5))
	call("", 40, new(40.0)) // a call of a playground session
	for _, record := range []*traffic.Call{
		{Method: http.MethodPost, Status: 400, Outcome: traffic.ClientError, Duration: 1, TTFT: new(1.0)},
		{Method: http.MethodGet, Status: 200, Outcome: traffic.OK, Duration: 1, TTFT: new(1.0)},
	} {
		f := c.Begin(t.Context(), "dep_c", traffic.Usual)
		f.Done(record)
		f.End()
	}
	refused := c.Begin(t.Context(), "dep_b", traffic.Fast)
	refused.End()
	socket := c.Begin(t.Context(), "dep_b", traffic.Fast)
	socket.Done(&traffic.Call{Outcome: traffic.OK, Duration: 1e6, TTFT: new(1.0), RequestFrames: new(int64(3))})
	got := gather(t, registry)
	for key, want := range map[string]float64{
		duration + "dep_a count": 3, duration + "dep_a sum": 601.501, duration + "dep_a 0.1": 0, duration + "dep_a 0.25": 1,
		duration + "dep_a 0.5": 2, duration + "dep_a 600": 2,
		first + "dep_a count": 2, first + "dep_a sum": 2.02, first + "dep_a 0.01": 0, first + "dep_a 0.025": 1, first + "dep_a 1": 1, first + "dep_a 2.5": 2,
		duration + "dep_b count": 1, duration + "dep_b 0.005": 1, first + "dep_b count": 1,
		duration + "playground count": 1, first + "playground 0.05": 1,
		calls + "dep_a ok": 3, calls + "dep_a engine_error": 0, calls + "dep_b ok": 2, calls + "dep_c ok": 1, calls + "dep_c client_error": 1,
		duration + "dep_c count": 2, first + "dep_c count": 0,
		tokens + "dep_a prompt": 21, tokens + "dep_a completion": 6, tokens + "dep_b prompt": 7, tokens + "dep_c prompt": 0,
		inFlight + "dep_a": 0, inFlight + "dep_b": 1, inFlight + "playground": 0,
	} {
		require.Contains(t, got, key)
		require.InDelta(t, want, got[key], 1e-9, key)
	}
	socket.End()
	require.Zero(t, gather(t, registry)[inFlight+"dep_b"])
}

func TestMetricsOfDeletedDeploymentsRemoved(t *testing.T) {
	t.Parallel()
	var deleted atomic.Bool
	registry := prometheus.NewRegistry()
	c, err := traffic.NewCallMetrics(t.Context(), nil, registry, func(id string) bool { return id == "dep_a" || !deleted.Load() })
	require.NoError(t, err)
	for _, id := range []string{"dep_a", "dep_b", ""} {
		f := c.Begin(t.Context(), id, traffic.Fast)
		f.Done(&traffic.Call{Method: http.MethodPost, Status: 200, Outcome: traffic.OK, TTFT: new(1.0)})
		f.End()
	}
	cut := c.Begin(t.Context(), "dep_b", traffic.Fast)
	require.InDelta(t, 1, gather(t, registry)[duration+"dep_b count"], 0)
	deleted.Store(true)
	got := gather(t, registry)
	for _, name := range []string{calls, duration, first, inFlight, tokens} {
		for key := range got {
			require.NotContains(t, key, name+"dep_b")
		}
	}
	require.InDelta(t, 1, got[duration+"dep_a count"], 0)
	require.InDelta(t, 1, got[duration+"playground count"], 0)
	cut.Done(&traffic.Call{Outcome: traffic.Revoked})
	cut.End()
	require.Equal(t, got, gather(t, registry))
}

func TestMetricsOfDeletedDeploymentsRemovedWithoutScrape(t *testing.T) {
	t.Parallel()
	const deployments = 2_000
	for _, exist := range []bool{false, true} {
		looked := 0
		c, err := traffic.NewCallMetrics(t.Context(), nil, nil, func(string) bool { looked++; return exist })
		require.NoError(t, err)
		for i := range deployments {
			c.Begin(t.Context(), "dep_"+strconv.Itoa(i), traffic.Fast).End()
		}
		require.Greater(t, looked, deployments-200, "almost all deployments must have been looked for")
		require.Less(t, looked, 2*deployments, "a call must not look for all deployments")
	}
}

func TestMetricsRegisteredOnce(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	_, err := traffic.NewCallMetrics(t.Context(), nil, registry, always)
	require.NoError(t, err)
	_, err = traffic.NewCallMetrics(t.Context(), nil, registry, always)
	require.ErrorContains(t, err, "register the metrics of deployments")
}

// BenchmarkFlight measures what the metrics cost a call, with the providers of a process.
func BenchmarkFlight(b *testing.B) {
	o, err := obs.Setup(b.Context(), obs.Config{Service: "inference"}, b.Output())
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, o.Shutdown(b.Context())) })
	c, err := traffic.NewCallMetrics(b.Context(), o.Meter, o.Registry, always)
	require.NoError(b, err)
	ids := make([]string, 1_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("dep_%026d", i)
	}
	call := func(i int, ttft *float64, rec *traffic.Call) {
		f := c.Begin(b.Context(), ids[i%len(ids)], traffic.Fast)
		defer f.End()
		*ttft = float64(i % 1_000)
		rec.Duration = 2 * *ttft
		f.Done(rec)
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		rec := &traffic.Call{Outcome: traffic.OK, TTFT: new(0.0)}
		for i := 0; b.Loop(); i++ {
			call(i, rec.TTFT, rec)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			rec := &traffic.Call{Outcome: traffic.OK, TTFT: new(0.0)}
			for i := 0; p.Next(); i++ {
				call(i, rec.TTFT, rec)
			}
		})
	})
}

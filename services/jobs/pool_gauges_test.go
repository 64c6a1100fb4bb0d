package jobs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/cluster"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// metricsOf reads all metrics. The keys are names with the values of the labels, in the order of the labels. The value of a
// histogram is the number of its observations.
func metricsOf(t *testing.T, reader sdkmetric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					values[m.Name+labels(&p)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[m.Name+labels(&p)] = p.Value
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[m.Name+labels(&p)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					at := p.Attributes.ToSlice()
					values[fmt.Sprint(m.Name, " ", at[0].Value.AsString())] = float64(p.Count)
				}
			}
		}
	}
	return values
}

func labels[N int64 | float64](p *metricdata.DataPoint[N]) string {
	var out strings.Builder
	for _, a := range p.Attributes.ToSlice() {
		out.WriteString(" " + a.Value.AsString())
	}
	return out.String()
}

// meters starts the service again with metrics, and returns a reader of them.
func (w *harness) meters() sdkmetric.Reader {
	w.t.Helper()
	reader := sdkmetric.NewManualReader()
	w.stop()
	w.deps.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	w.start()
	return reader
}

// gauges reads the gauges of pools, which a new reader reads from the database.
func (w *harness) gauges() map[string]float64 {
	w.t.Helper()
	reader := sdkmetric.NewManualReader()
	require.NoError(w.t, cluster.RegisterPoolGauges(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), w.pool, clock.Real(), quiet()))
	return metricsOf(w.t, reader)
}

func (w *harness) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
}

func TestPoolGauges(t *testing.T) {
	t.Parallel()
	w := newHarness(t, patient)
	require.Empty(t, w.gauges())
	a := w.join(w.fleet("gpu", "idle"), gpuNode(4))
	first := w.submit(gpus("gpu", 3))
	work := a.attempt()
	second := w.submit(gpus("gpu", 2))
	w.awaitReason(second.GetId(), "pool_capacity")
	w.exec(`UPDATE job SET queued_at = now() - interval '100 s' WHERE id = $1`, second.GetId())

	got := w.gauges()
	require.InDelta(t, 100, got["jobs_queue_oldest_seconds gpu"], 50)
	delete(got, "jobs_queue_oldest_seconds gpu")
	want := map[string]float64{"jobs_queue_jobs gpu pool_capacity": 1, "jobs_queue_oldest_seconds idle": 0}
	for _, pool := range []string{"gpu", "idle"} {
		for _, state := range []string{"joining", "draining", "drained", "cordoned", "unhealthy", "lost"} {
			want["jobs_nodes "+pool+" "+state] = 0
		}
		want["jobs_nodes "+pool+" ready"] = 1
		want["jobs_gpus "+pool+" free"], want["jobs_gpus "+pool+" held"], want["jobs_gpus "+pool+" unavailable"] = 1, 3, 0
	}
	require.Equal(t, want, got)

	a.see(work, jobsv1.Phase_PHASE_RUNNING)
	w.await(first.GetId(), jobsv1.JobState_JOB_STATE_STARTING)
	w.exec(`UPDATE node SET state = 'lost', lost_at = now() WHERE id = $1`, a.nodeID)
	got = w.gauges()
	require.Equal(t, []float64{0, 1, 0, 3, 1}, []float64{
		got["jobs_nodes gpu ready"], got["jobs_nodes gpu lost"], got["jobs_gpus gpu free"], got["jobs_gpus gpu held"], got["jobs_gpus gpu unavailable"],
	}, "the GPU that is not held is on a lost node")
}

// gpus requests GPUs of one node of a pool.
func gpus(pool string, n int32) func(*jobsv1.SubmitJobRequest) {
	return func(r *jobsv1.SubmitJobRequest) {
		r.Spec.Resources = &jobsv1.Resources{Pools: []*jobsv1.PoolRequest{{Pool: pool, GpusPerNode: &n}}}
	}
}

// However often the metrics are read, a replica reads the database at most once in 15 seconds.
func TestPoolGauges_readTheDatabaseRarely(t *testing.T) {
	t.Parallel()
	w := newHarness(t, patient)
	clk, reader := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)), sdkmetric.NewManualReader()
	require.NoError(t, cluster.RegisterPoolGauges(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), w.pool, clk, quiet()))
	a := w.join(w.fleet("gpu"), gpuNode(4))
	w.awaitNode(a.nodeID, "ready")
	require.InDelta(t, 4, metricsOf(t, reader)["jobs_gpus gpu free"], 0)
	w.exec(`UPDATE node SET gpus = 8`)
	clk.Advance(14 * time.Second)
	require.InDelta(t, 4, metricsOf(t, reader)["jobs_gpus gpu free"], 0)
	clk.Advance(time.Second)
	require.InDelta(t, 8, metricsOf(t, reader)["jobs_gpus gpu free"], 0)
}

func TestMeters_endsAndWaits(t *testing.T) {
	t.Parallel()
	w := newHarness(t, patient)
	reader := w.meters()
	a := w.join(w.fleet("cpu"), cpuNode())
	first := metricsOf(t, reader)
	for reason, end := range job.EndReasons() {
		require.Contains(t, first, "jobs_ended_total "+reason+" "+string(end.State), "increase() needs a sample before the first end")
	}
	j := w.submit()
	a.exit(w.running(a, j), 0, "", "")
	w.await(j.GetId(), jobsv1.JobState_JOB_STATE_SUCCEEDED)
	failed := w.submit()
	w.fail(a, failed, "", "")
	got := metricsOf(t, reader)
	require.Contains(t, got, "jobs_nodes cpu ready", "the service registers the gauges of pools")
	require.Eventually(t, func() bool {
		got = metricsOf(t, reader)
		return got["jobs_ended_total user_error failed"] == 1
	}, patience, 10*time.Millisecond, "the job is counted after the commit")
	require.InDelta(t, 1, got["jobs_ended_total completed succeeded"], 0)
	require.InDelta(t, 2, got["jobs_queue_wait_seconds cpu"], 0)
}

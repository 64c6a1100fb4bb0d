package runsearch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// everyRun is ingest, to which every run reports ten metrics between two passes.
type everyRun struct {
	ingestpeerv1.RunDataPeerServiceClient

	step  int64
	quiet bool // the runs report nothing
}

func (e *everyRun) SummarizeRuns(
	_ context.Context, req *ingestpeerv1.SummarizeRunsRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.SummarizeRunsResponse, error) {
	out := &ingestpeerv1.SummarizeRunsResponse{}
	for _, k := range req.GetRuns() {
		if e.quiet {
			break
		}
		d := &ingestpeerv1.RunDelta{RunId: k.GetRunId(), Position: k.GetRows() + 1, Rows: k.GetRows() + 1, Shown: k.GetShown()}
		for key := range 10 {
			x := float64(e.step)
			d.Metrics = append(d.Metrics, &ingestpeerv1.MetricDelta{
				Key: fmt.Sprint("key ", key), FirstStep: e.step, LastStep: e.step, Last: x, Min: &x, Max: &x,
			})
		}
		out.Runs = append(out.Runs, d)
	}
	return out, nil
}

// BenchmarkRefresh measures a pass over 1,000 running runs with ten metrics each: if all of them have reported, and if none has. One
// metric of each run has a goal.
func BenchmarkRefresh(b *testing.B) {
	const runs = 1000
	h := newHarness(b)
	h.fill(runs)
	h.exec(`UPDATE run SET ended_at = NULL, summary_final = false, goals = '{"key 1":"minimize"}' WHERE id < 'run_01'`)
	h.exec(`UPDATE run SET summary_final = true WHERE id > 'run_01'`)
	h.exec(`INSERT INTO run_summary (run_id, position, as_of, hparams_left_out, metrics_left_out, rows, shown)
		SELECT id, 1, now(), 0, false, 1, 's' FROM run WHERE NOT summary_final`)
	h.exec(`INSERT INTO run_metric (run_id, key, last, min, max, last_step) SELECT id, 'key ' || k, 0, 0, 0, 0 FROM run, generate_series(0, 9) k
		WHERE NOT summary_final`)
	ingest := &everyRun{}
	c := &Copier{Pool: h.pool, Ingest: ingest, Clock: clock.Real()}
	for _, ingest.quiet = range []bool{false, true} {
		name := "all report"
		if ingest.quiet {
			name = "none reports"
		}
		b.Run(name, func(b *testing.B) {
			const rounds = 9
			var took time.Duration
			for n := range rounds + 1 {
				ingest.step++
				began := time.Now()
				require.NoError(b, c.Refresh(b.Context()))
				if n > 0 { // the first round warms up
					took += time.Since(began)
				}
			}
			b.ReportMetric(float64(took.Microseconds())/rounds/1000, "ms/pass")
			b.ReportMetric(0, "ns/op")
		})
	}
	var copied int
	require.NoError(b, h.pool.QueryRow(b.Context(), `SELECT count(*) FROM run_metric WHERE last = 10 AND key LIKE 'key %'`).Scan(&copied))
	require.Equal(b, 10*runs, copied)
}

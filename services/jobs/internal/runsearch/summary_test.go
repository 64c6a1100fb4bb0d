package runsearch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// reports is ingest: the reports of each run, by run ID.
type reports struct {
	ingestpeerv1.RunDataPeerServiceClient

	runs  map[string]*ingestpeerv1.SummarizeRunResponse
	err   error
	asked []string
	clock *clock.Fake
	takes time.Duration // how long a response takes
	// earlier means that this is an earlier version, which hid other points of older attempts.
	earlier bool
	// deltas is the response of SummarizeRuns, and known are the runs of its requests.
	deltas *ingestpeerv1.SummarizeRunsResponse
	known  []string
}

func (r *reports) SummarizeRun(
	_ context.Context, req *ingestpeerv1.SummarizeRunRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.SummarizeRunResponse, error) {
	id := req.GetRunId()
	r.clock.Advance(r.takes)
	r.asked = append(r.asked, fmt.Sprintf("%s at %d", id[len(id)-1:], req.GetPosition()))
	if out := r.runs[id]; out != nil {
		out.ResumeSteps = !r.earlier
		return out, nil
	}
	if r.err != nil {
		return nil, r.err
	}
	return nil, fault.Absentf("run", id)
}

func loss(last float64) []*ingestpeerv1.SummarizedMetric {
	return []*ingestpeerv1.SummarizedMetric{{Key: "loss", Last: &last, Min: &last, Max: &last}}
}

func (h *harness) copier(r *reports) (pass func() error) {
	r.clock = clock.NewFake(fixtures.Now())
	c := &Copier{Pool: h.pool, Ingest: r, Clock: r.clock}
	return func() error {
		r.asked = nil
		return c.RunOnce(h.Context())
	}
}

func (h *harness) values() string {
	h.Helper()
	resp := h.find(user(h.Context(), "alice"), &jobsv1.SearchRunsRequest{
		Columns: []string{"hparam.lr", "hparam.n", "metric.loss.last", "metric.acc.max"}, Filter: []byte(`{"field":"id","value":"` + runID(4) + `"}`),
	})
	require.Len(h, resp.GetRuns(), 1)
	return string(resp.GetRuns()[0].GetValues())
}

func TestCopier_RunOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	live := &ingestpeerv1.SummarizeRunResponse{Position: 3, Params: []byte(`{"lr":0.1,"n":"x"}`), Metrics: loss(2)}
	r := &reports{runs: map[string]*ingestpeerv1.SummarizeRunResponse{runID(1): {Closed: true}, runID(2): {Closed: true, Position: 1}, runID(4): live}}
	pass := h.copier(r)
	require.NoError(t, pass())
	require.Equal(t, []string{"1 at 0", "2 at 0", "3 at 0", "4 at 0"}, r.asked)
	require.JSONEq(t, `{"hparam.lr":0.1,"hparam.n":"x","metric.loss.last":2,"metric.acc.max":null}`, h.values())
	require.NoError(t, pass())
	require.Empty(t, r.asked, "none is due again at once")

	later := `UPDATE run SET summary_tried_at = summary_tried_at - interval '61 seconds'`
	h.exec(later)
	*live = ingestpeerv1.SummarizeRunResponse{Position: 3, Params: []byte(`{"lr":0.2}`), Closed: true}
	require.NoError(t, pass())
	require.Equal(t, []string{"3 at 0", "4 at 3"}, r.asked, "the closed runs are complete")
	require.JSONEq(t, `{"hparam.lr":0.2,"hparam.n":null,"metric.loss.last":2,"metric.acc.max":null}`, h.values(), "without new metrics, they stay")

	h.exec(later)
	*live = ingestpeerv1.SummarizeRunResponse{Position: 2, Params: []byte(`{}`), Closed: true}
	require.NoError(t, pass())
	require.Equal(t, []string{"3 at 0", "4 at 3"}, r.asked, "a run that has not ended is not complete")
	require.JSONEq(t, `{"hparam.lr":0.2,"hparam.n":null,"metric.loss.last":2,"metric.acc.max":null}`, h.values(), "an older copy must change nothing")

	h.exec(`UPDATE run SET ended_at = clock_timestamp() WHERE id = $1`, runID(4))
	*live = ingestpeerv1.SummarizeRunResponse{Position: 5, Params: []byte(`{}`), Closed: true, Metrics: append(loss(1), &ingestpeerv1.SummarizedMetric{Key: "acc"})}
	require.NoError(t, pass())
	require.Equal(t, []string{"4 at 3"}, r.asked, "a run that ended is due at once")
	require.JSONEq(t, `{"hparam.lr":null,"hparam.n":null,"metric.loss.last":1,"metric.acc.max":null}`, h.values())
	h.exec(later)
	require.NoError(t, pass())
	require.Equal(t, []string{"3 at 0"}, r.asked)
	h.exec(`DELETE FROM run WHERE id = $1`, runID(4))
	var left int
	require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM run_metric) + (SELECT count(*) FROM run_summary)`).Scan(&left))
	require.Equal(t, 2, left, "the copy of a run is deleted with the run: only the summaries of the first two are left")
}

// The copy that is made when a run is closed has all of its reports, although the run has not ended yet.
func TestCopier_CopyRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	last := &ingestpeerv1.SummarizeRunResponse{Position: 7, Closed: true, Metrics: loss(0.5)}
	r := &reports{runs: map[string]*ingestpeerv1.SummarizeRunResponse{runID(4): last}, clock: clock.NewFake(fixtures.Now())}
	c := &Copier{Pool: h.pool, Ingest: r, Clock: r.clock}
	for range 2 {
		require.NoError(t, c.CopyRun(t.Context(), runID(4)))
		require.JSONEq(t, `{"hparam.lr":null,"hparam.n":null,"metric.loss.last":0.5,"metric.acc.max":null}`, h.values())
	}
	require.Equal(t, []string{"4 at 0", "4 at 7"}, r.asked)
	require.NoError(t, c.CopyRun(t.Context(), runID(3)), "a run that has reported nothing has no summary")
}

// The best value of a metric is its lowest or its highest one, as the recipe of the run states. A metric without a goal has no best value.
func TestCopier_CopyRun_best(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`UPDATE run SET goals = '{"loss":"minimize","acc":"maximize","nan":"minimize"}' WHERE id = $1`, runID(4))
	out := &ingestpeerv1.SummarizeRunResponse{}
	for i, key := range []string{"acc", "loss", "lr", "nan"} {
		m := &ingestpeerv1.SummarizedMetric{Key: key, Last: new(5.0)}
		if key != "nan" {
			m.Min, m.Max = new(float64(i)), new(float64(i)+0.5)
		}
		out.Metrics = append(out.Metrics, m)
	}
	c := &Copier{Pool: h.pool, Ingest: &reports{runs: map[string]*ingestpeerv1.SummarizeRunResponse{runID(4): out, runID(3): out}, clock: clock.NewFake(fixtures.Now())}}
	c.Clock = clock.NewFake(fixtures.Now())
	bests := func(n int) string {
		resp := h.find(user(t.Context(), "alice"), &jobsv1.SearchRunsRequest{
			Columns: []string{"metric.acc.best", "metric.loss.best", "metric.lr.best", "metric.nan.best"}, Filter: []byte(`{"field":"id","value":"` + runID(n) + `"}`),
		})
		require.Len(t, resp.GetRuns(), 1)
		return string(resp.GetRuns()[0].GetValues())
	}
	require.NoError(t, c.CopyRun(t.Context(), runID(4)))
	require.NoError(t, c.CopyRun(t.Context(), runID(3)))
	require.JSONEq(t, `{"metric.acc.best":0.5,"metric.loss.best":1,"metric.lr.best":null,"metric.nan.best":null}`, bests(4))
	require.JSONEq(t, `{"metric.acc.best":null,"metric.loss.best":null,"metric.lr.best":null,"metric.nan.best":null}`, bests(3), "the recipe states no goals")
	require.Equal(t, "4", h.search(&jobsv1.SearchRunsRequest{Filter: []byte(`{"field":"metric.loss.best","op":"le","value":1}`)}))
	require.Equal(t, "4321", h.search(&jobsv1.SearchRunsRequest{Sort: new("metric.acc.best"), Direction: new("asc")}))
	require.InDelta(t, 1, h.aggregate("carol", &jobsv1.AggregateRunsRequest{Values: []string{"metric.loss.best"}}, "prj_1").GetGroups()[0].GetValues()[0].GetMean(), 0)

	out.Position, out.Metrics = 1, out.GetMetrics()[1:2]
	out.Metrics[0].Min = new(-7.0)
	require.NoError(t, c.CopyRun(t.Context(), runID(4)))
	require.JSONEq(t, `{"metric.acc.best":null,"metric.loss.best":-7,"metric.lr.best":null,"metric.nan.best":null}`, bests(4))
}

// A report may change what readers see without a new position, so the copy of a closed run has its metrics nevertheless.
func TestCopier_CopyRun_samePosition(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	out := &ingestpeerv1.SummarizeRunResponse{Position: 7, Metrics: loss(0.5)}
	r := &reports{runs: map[string]*ingestpeerv1.SummarizeRunResponse{runID(4): out}, clock: clock.NewFake(fixtures.Now())}
	c := &Copier{Pool: h.pool, Ingest: r, Clock: r.clock}
	require.NoError(t, c.CopyRun(t.Context(), runID(4)))
	*out = ingestpeerv1.SummarizeRunResponse{Position: 7, Closed: true, Metrics: loss(2)}
	require.NoError(t, c.CopyRun(t.Context(), runID(4)))
	require.JSONEq(t, `{"hparam.lr":null,"hparam.n":null,"metric.loss.last":2,"metric.acc.max":null}`, h.values())
}

// The complete copies of runs with several attempts that were made before an upgrade follow an older rule. They are made
// again; those of other runs, and those whose data has expired, stay.
func TestMigration_copiesRunsOfSeveralAttemptsAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`UPDATE run SET summary_final = true WHERE ended_at IS NOT NULL`)
	h.exec(`UPDATE run SET attempts = 1 WHERE id = $1`, runID(2))
	h.exec(`UPDATE run SET data_expired_at = now() WHERE id = $1`, runID(3))
	h.exec(`INSERT INTO run_summary SELECT id, 5, now(), 0, false FROM run`)
	raw, err := db.Migrations.ReadFile("migrations/00213_attempt_summary.sql")
	require.NoError(t, err)
	_, err = h.owner.Exec(t.Context(), strings.TrimPrefix(string(raw), "-- +goose Up"))
	require.NoError(t, err)
	r := &reports{runs: map[string]*ingestpeerv1.SummarizeRunResponse{runID(1): {Closed: true, Position: 5, Metrics: loss(3)}}}
	pass := h.copier(r)
	require.NoError(t, pass())
	require.Equal(t, []string{"1 at 0", "4 at 0"}, r.asked)
	var last float64
	require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT last FROM run_metric WHERE run_id = $1`, runID(1)).Scan(&last))
	require.InDelta(t, 3, last, 0)
}

// If jobs is upgraded first, it copies ended runs from the earlier version of ingest. They are copied again from the new one.
func TestCopier_RunOnce_earlierIngest(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	out := &ingestpeerv1.SummarizeRunResponse{Position: 7, Closed: true, Metrics: loss(0.5)}
	r := &reports{runs: map[string]*ingestpeerv1.SummarizeRunResponse{runID(4): out}, earlier: true}
	h.exec(`UPDATE run SET ended_at = clock_timestamp() WHERE id = $1`, runID(4))
	h.exec(`UPDATE run SET summary_final = true WHERE id <> $1`, runID(4))
	pass := h.copier(r)
	for _, earlier := range []bool{true, false} {
		r.earlier = earlier
		require.NoError(t, pass())
		require.Len(t, r.asked, 1)
		h.exec(`UPDATE run SET summary_tried_at = summary_tried_at - interval '61 seconds'`)
		out.Metrics = loss(2)
	}
	require.JSONEq(t, `{"hparam.lr":null,"hparam.n":null,"metric.loss.last":2,"metric.acc.max":null}`, h.values())
	require.NoError(t, pass())
	require.Empty(t, r.asked, "the copy is complete")
}

// The copies of a run are bounded, and what they lack is counted.
func TestSummaryOf_bounds(t *testing.T) {
	t.Parallel()
	var params strings.Builder
	for i := range 600 {
		fmt.Fprintf(&params, `"p%d":%d,`, i, i)
	}
	out := &ingestpeerv1.SummarizeRunResponse{
		Params:  []byte(`{` + params.String() + `"a\u0000":1,"b":"` + strings.Repeat("x", 600) + `","` + strings.Repeat("k", 257) + `":2}`),
		Metrics: []*ingestpeerv1.SummarizedMetric{{Key: "ok"}, {Key: strings.Repeat("k", 257)}},
	}
	s, err := summaryOf(out, &due{})
	require.NoError(t, err)
	require.Len(t, s.params, maxParams)
	require.Equal(t, 103, s.paramsLeftOut)
	require.Equal(t, []string{"ok"}, s.metrics)
	require.True(t, s.metricsLeftOut)
	for in, want := range map[string]string{`"\u00e9<"`: `"é\u003c"`, `1e-3`: `1e-3`, `{"b":1,"a":[2]}`: `{"a":[2],"b":1}`, `null`: `null`, `1e999`: `1e999`} {
		text, _ := normal([]byte(in))
		require.Equal(t, want, text)
	}
}

// While ingest is busy, a pass requests one run only. Any other failure leaves the other runs to the same pass.
func TestCopier_RunOnce_failures(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := &reports{err: fault.New(fault.Unavailable, "charts_busy", "busy")}
	pass := h.copier(r)
	require.ErrorContains(t, pass(), "busy")
	require.Len(t, r.asked, 1)
	h.exec(`UPDATE run SET summary_tried_at = NULL`)
	r.err = errors.New("broken")
	require.ErrorContains(t, pass(), "broken")
	require.Len(t, r.asked, 4)
}

// A pass copies all runs that are due, but claims no further ones after some seconds. A run whose copy takes long is
// copied less often.
func TestCopier_RunOnce_spares(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for n := 5; n <= 35; n++ {
		h.insert(n, "alice", "prj_1", "project", "running", nil)
	}
	r := &reports{}
	pass := h.copier(r)
	require.NoError(t, pass())
	require.Len(t, r.asked, 35, "all runs are copied in one pass if it is fast")
	h.exec(`UPDATE run SET summary_tried_at = NULL`)
	r.takes = 900 * time.Millisecond
	require.NoError(t, pass())
	require.Len(t, r.asked, maxClaim)
	h.exec(`UPDATE run SET summary_tried_at = CASE id WHEN $1 THEN NULL ELSE clock_timestamp() END`, runID(4))
	r.takes = 7 * time.Second
	require.NoError(t, pass())
	require.Len(t, r.asked, 1)
	h.exec(`UPDATE run SET summary_tried_at = summary_tried_at - interval '3 minutes'`)
	r.takes = 0
	require.NoError(t, pass())
	require.Len(t, r.asked, 34, "the pause is twenty times seven seconds longer")
	h.exec(`UPDATE run SET summary_tried_at = summary_tried_at - interval '1 minute'`)
	require.NoError(t, pass())
	require.Len(t, r.asked, 35)
}

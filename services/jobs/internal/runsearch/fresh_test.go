package runsearch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	ingestpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func (r *reports) SummarizeRuns(
	_ context.Context, req *ingestpeerv1.SummarizeRunsRequest, _ ...grpc.CallOption,
) (*ingestpeerv1.SummarizeRunsResponse, error) {
	if r.earlier {
		return nil, fault.New(fault.Unconfigured, "", "no such method")
	}
	for _, k := range req.GetRuns() {
		r.known = append(r.known, fmt.Sprint(k.GetRunId()[len(k.GetRunId())-1:], " at ", k.GetRows(), k.GetShown()))
	}
	return r.deltas, nil
}

// shown returns the last and best loss of the fourth run, and the time of its copy.
func (h *harness) shown() (values string, asOf time.Time) {
	h.Helper()
	resp := h.find(user(h.Context(), "alice"), &jobsv1.SearchRunsRequest{
		Columns: []string{"metric.loss.last", "metric.loss.min", "metric.loss.max", "metric.loss.best"}, Filter: []byte(`{"field":"id","value":"` + runID(4) + `"}`),
	})
	require.Len(h, resp.GetRuns(), 1)
	return string(resp.GetRuns()[0].GetValues()), resp.GetRuns()[0].GetAsOf().AsTime()
}

func delta(rows int64, metrics ...*ingestpeerv1.MetricDelta) *ingestpeerv1.RunDelta {
	return &ingestpeerv1.RunDelta{RunId: runID(4), Position: rows + 1, Rows: rows, Shown: "s", Metrics: metrics}
}

// Running runs are copied as a whole once; from then on, only what they have reported since is added.
func TestCopier_Refresh(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`UPDATE run SET goals = '{"loss":"minimize"}' WHERE id = $1`, runID(4))
	at := func(step int64, value float64) *ingestpeerv1.MetricDelta {
		return &ingestpeerv1.MetricDelta{Key: "loss", FirstStep: step, LastStep: step, Last: value, Min: &value, Max: &value}
	}
	whole := &ingestpeerv1.SummarizeRunResponse{Position: 4, Rows: 3, Shown: "s", Params: []byte(`{"lr":0.1}`), Metrics: loss(2)}
	whole.Metrics[0].LastStep = new(int64(7))
	r := &reports{runs: map[string]*ingestpeerv1.SummarizeRunResponse{runID(4): whole}, clock: clock.NewFake(fixtures.Now())}
	c := &Copier{Pool: h.pool, Ingest: r, Clock: r.clock}
	pass := func(runs ...*ingestpeerv1.RunDelta) []string {
		t.Helper()
		r.known, r.asked, r.deltas = nil, nil, &ingestpeerv1.SummarizeRunsResponse{Runs: runs}
		require.NoError(t, c.Refresh(t.Context()))
		return append(r.known, r.asked...)
	}
	require.Equal(t, []string{"4 at 0", "4 at 0"}, pass(&ingestpeerv1.RunDelta{RunId: runID(4), Whole: true}), "only the run that has not ended")
	values, first := h.shown()
	require.JSONEq(t, `{"metric.loss.last":2,"metric.loss.min":2,"metric.loss.max":2,"metric.loss.best":2}`, values)

	require.Equal(t, []string{"4 at 3s"}, pass())
	_, unchanged := h.shown()
	require.Equal(t, first, unchanged, "nothing is written for a run without a report")

	require.Equal(t, []string{"4 at 3s"}, pass(delta(5, at(9, 1), &ingestpeerv1.MetricDelta{Key: "\x00"})))
	values, second := h.shown()
	require.JSONEq(t, `{"metric.loss.last":1,"metric.loss.min":1,"metric.loss.max":2,"metric.loss.best":1}`, values)
	require.True(t, second.After(first))
	require.Equal(t, []string{"4 at 5s"}, pass(delta(6, &ingestpeerv1.MetricDelta{Key: "loss", FirstStep: 10, LastStep: 12, Last: 9})))
	values, _ = h.shown()
	require.JSONEq(t, `{"metric.loss.last":9,"metric.loss.min":1,"metric.loss.max":2,"metric.loss.best":1}`, values, "no new value is a number")

	whole.Rows, whole.Position, whole.Metrics[0].Last, whole.Metrics[0].LastStep = 7, 8, new(5.0), new(int64(12))
	require.Equal(t, []string{"4 at 6s", "4 at 0"}, pass(delta(7, at(12, 5))), "a point may replace an earlier one")
	values, _ = h.shown()
	require.JSONEq(t, `{"metric.loss.last":5,"metric.loss.min":2,"metric.loss.max":2,"metric.loss.best":2}`, values)

	h.exec(`UPDATE run_summary SET rows = 8`)
	r.known, r.deltas = nil, &ingestpeerv1.SummarizeRunsResponse{Runs: []*ingestpeerv1.RunDelta{delta(9, at(20, 0))}}
	known := []*ingestpeerv1.SummarizedRun{{RunId: runID(4), Rows: 7, Shown: "s"}}
	_, _, err := c.refresh(t.Context(), known, fixtures.Now())
	require.NoError(t, err)
	values, _ = h.shown()
	require.JSONEq(t, `{"metric.loss.last":5,"metric.loss.min":2,"metric.loss.max":2,"metric.loss.best":2}`, values, "the copy has changed meanwhile")

	h.exec(`UPDATE run SET ended_at = now()`)
	require.Empty(t, pass(delta(9)))
	r.earlier = true
	h.exec(`UPDATE run SET ended_at = NULL`)
	require.Empty(t, pass(), "an earlier version of ingest has only whole copies")
}

// A run that has to be copied as a whole again and again is copied less often, the longer that takes.
func TestCopier_Refresh_wholeCopiesRest(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	whole := &ingestpeerv1.SummarizeRunResponse{Position: 4, Metrics: loss(2)}
	r := &reports{runs: map[string]*ingestpeerv1.SummarizeRunResponse{runID(4): whole}, clock: clock.NewFake(fixtures.Now()), takes: 100 * time.Millisecond}
	r.deltas = &ingestpeerv1.SummarizeRunsResponse{Runs: []*ingestpeerv1.RunDelta{{RunId: runID(4), Whole: true}, {RunId: runID(9), Whole: true}}}
	c := &Copier{Pool: h.pool, Ingest: r, Clock: r.clock}
	copies := func() int {
		r.asked = nil
		require.NoError(t, c.Refresh(t.Context()))
		return len(r.asked)
	}
	require.Equal(t, 2, copies())
	require.Zero(t, copies())
	r.clock.Advance(time.Second)
	require.Zero(t, copies())
	r.clock.Advance(time.Second)
	require.Equal(t, 2, copies())
	r.err = fault.New(fault.Unavailable, "", "ingest is busy")
	r.clock.Advance(time.Minute)
	r.runs = nil
	r.asked = nil
	require.Error(t, c.Refresh(t.Context()))
	require.Len(t, r.asked, 1, "the others wait for a later pass")
}

// If the response has no room for all runs, the pass continues after the last one that was examined.
func TestCopier_Refresh_pages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(`UPDATE run SET ended_at = NULL`)
	r := &reports{clock: clock.NewFake(fixtures.Now()), deltas: &ingestpeerv1.SummarizeRunsResponse{Until: runID(2)}}
	c := &Copier{Pool: h.pool, Ingest: untilOnce{r}, Clock: r.clock}
	require.NoError(t, c.Refresh(t.Context()))
	pages := []string{"1 at 0", "2 at 0", "3 at 0", "4 at 0", "3 at 0", "4 at 0"}
	require.Equal(t, pages, r.known)

	r.known, r.deltas = nil, &ingestpeerv1.SummarizeRunsResponse{Until: runID(2), Runs: []*ingestpeerv1.RunDelta{{RunId: runID(1), Whole: true}}}
	r.err = fault.New(fault.Internal, "", "the run cannot be read")
	require.Error(t, c.Refresh(t.Context()))
	require.Equal(t, pages, r.known, "a run that cannot be copied does not stop the others")
}

// untilOnce has room for all runs from the second call on.
type untilOnce struct{ *reports }

func (u untilOnce) SummarizeRuns(
	ctx context.Context, req *ingestpeerv1.SummarizeRunsRequest, options ...grpc.CallOption,
) (*ingestpeerv1.SummarizeRunsResponse, error) {
	out, err := u.reports.SummarizeRuns(ctx, req, options...)
	u.deltas = &ingestpeerv1.SummarizeRunsResponse{}
	return out, err
}

package runsearch

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func (h *harness) aggregate(user string, req *jobsv1.AggregateRunsRequest, projects ...string) *jobsv1.AggregateRunsResponse {
	h.Helper()
	resp, err := h.server.AggregateRuns(userIn(h, user, projects...), req)
	require.NoError(h, err)
	return resp
}

func TestServer_AggregateRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	h.exec(`INSERT INTO run_summary VALUES ($1, 7, '2026-11-21T03:00:00Z', 0, false), ($2, 7, '2026-11-20T03:00:00Z', 0, false)`, runID(1), runID(2))
	all := h.aggregate("carol", &jobsv1.AggregateRunsRequest{Values: []string{"metric.loss.last", "hparam.optim.lr", "metric.none.max"}}, "prj_1", "prj_2")
	require.Len(t, all.GetGroups(), 1)
	g := all.GetGroups()[0]
	require.JSONEq(t, `{}`, string(g.GetKey()))
	require.EqualValues(t, 4, g.GetCount())
	require.Equal(t, []string{runID(4), runID(3), runID(2), runID(1)}, g.GetRunIds())
	require.Equal(t, "2026-11-20T03:00:00Z", g.GetAsOf().AsTime().Format(time.RFC3339), "the oldest copy counts")
	loss := g.GetValues()[0]
	require.EqualValues(t, 2, loss.GetCount(), "NaN does not count")
	require.InDelta(t, 0.375, loss.GetMean(), 1e-12)
	require.InDelta(t, 0.25/math.Sqrt2, loss.GetStd(), 1e-12)
	require.InDelta(t, 0.25, loss.GetMin(), 0)
	require.InDelta(t, 0.5, loss.GetMax(), 0)
	require.EqualValues(t, 2, g.GetValues()[1].GetCount(), "a text does not count")
	require.Nil(t, g.GetValues()[2].Mean)

	by := h.aggregate("carol", &jobsv1.AggregateRunsRequest{
		GroupBy: []string{"owner", "hparam.optim.lr", "label.n"}, Limit: new(int32(3)), Filter: []byte(`{"field":"state","op":"ne","value":"failed"}`),
	}, "prj_1", "prj_2")
	require.EqualValues(t, 3, by.GetRuns())
	require.False(t, by.GetMore() || by.GetMoreRuns())
	var keys []string
	for _, g := range by.GetGroups() {
		keys = append(keys, string(g.GetKey()))
	}
	require.ElementsMatch(t, []string{
		`{"hparam.optim.lr":0.001,"label.n":"1","owner":"alice"}`, `{"hparam.optim.lr":"auto","label.n":"3","owner":"bob"}`,
		`{"hparam.optim.lr":null,"label.n":"4","owner":"alice"}`,
	}, keys)
	for user, want := range map[string]int32{"alice": 3, "bob": 2, "carol": 1} {
		require.Equal(t, want, h.aggregate(user, &jobsv1.AggregateRunsRequest{}).GetRuns(), "%s must count the runs that %s may read", user, user)
	}
	by = h.aggregate("alice", &jobsv1.AggregateRunsRequest{GroupBy: []string{"owner"}, Limit: new(int32(1))})
	require.True(t, by.GetMore())
	require.EqualValues(t, 2, by.GetGroups()[0].GetCount(), "the largest group is the first")
	for _, req := range []*jobsv1.AggregateRunsRequest{
		{GroupBy: []string{"tag"}}, {GroupBy: []string{"metric.loss.last"}}, {GroupBy: []string{"label."}}, {Values: []string{"owner"}}, {Filter: []byte(`{}`)},
	} {
		_, err := h.server.AggregateRuns(userIn(h, "alice"), req)
		require.True(t, fault.Is(err, fault.Invalid), "%v: %v", req, err)
	}
}

// Numbers at the limits of the type overflow to infinity, but never fail.
func TestStatistic_extremes(t *testing.T) {
	t.Parallel()
	var s statistic
	for _, x := range []float64{1e200, -1e200, math.MaxFloat64} {
		s.add(x)
	}
	require.True(t, math.IsInf(s.toProto("x").GetStd(), 1))
	s = statistic{}
	for range 1000 {
		s.add(1e9 + 0.1)
	}
	require.InDelta(t, 0, s.toProto("x").GetStd(), 1e-6)
}

// An aggregation reads at most maxCounted of many runs.
func requireAggregatePlan(t *testing.T, h *harness) {
	t.Helper()
	by := &grouping{by: []string{"hparam.name", "recipe"}, values: []string{"metric.loss.min", "hparam.lr"}}
	plan := pgtest.Explain(t, h.pool, func(q pg.Querier) error {
		began := time.Now()
		found, runs, more, err := Store{}.aggregate(t.Context(), q, access.ServiceScope(), &query{}, by)
		require.EqualValues(t, maxCounted, runs)
		require.True(t, more)
		require.Greater(t, len(found), 1000)
		t.Logf("aggregate: %v", time.Since(began).Round(time.Millisecond))
		return err
	})
	require.NotContains(t, plan, "Seq Scan", plan)
}

package runsearch

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Each order must be complete when it is read in pages of one run.
func TestServer_SearchRuns_pages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	h.exec(`UPDATE run SET recipe_lock = '{}' WHERE id = $1`, runID(3))
	for _, c := range [][3]string{
		{"", "", "4321"},
		{"created_at", "asc", "1234"},
		{"started_at", "desc", "4321"},
		{"ended_at", "desc", "4321"},
		{"ended_at", "asc", "1234"},
		{"name", "asc", "1234"},
		{"owner", "asc", "1423"},
		{"project", "desc", "3241"},
		{"state", "asc", "2431"},
		{"recipe", "desc", "1423"},
		{"hparam.optim.lr", "asc", "1243"},
		{"hparam.optim.lr", "desc", "2143"},
		{"metric.loss.last", "asc", "2143"},
		{"metric.loss.last", "desc", "1243"},
		{"metric.loss.min", "asc", "2143"},
		{"metric.loss.max", "desc", "2143"},
		{"metric.none.last", "asc", "4321"},
	} {
		for _, limit := range []int32{1, 3, 4} {
			req, seen := &jobsv1.SearchRunsRequest{Sort: &c[0], Direction: &c[1], Limit: &limit}, ""
			for {
				resp := h.find(user(t.Context(), "carol", "prj_1", "prj_2"), req)
				seen += h.found(resp)
				if req.After = resp.Next; resp.Next == nil {
					break
				}
				require.NotEmpty(t, resp.GetRuns())
			}
			require.Equal(t, c[2], seen, "%v, %d", c, limit)
		}
	}
}

// The permission filter is a part of every query.
func TestServer_SearchRuns_visibility(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	for name, c := range map[string]struct {
		projects []string
		want     string
	}{"alice": {nil, "431"}, "bob": {nil, "32"}, "carol": {nil, "3"}, "dave": {[]string{"prj_2"}, "32"}} {
		for _, sort := range []string{"", "name", "metric.loss.last", "metric.eval.acc.max", "hparam.optim.lr"} {
			for _, filter := range []string{"", `{"or":[{"field":"owner","value":"alice"},{"field":"owner","value":"bob"}]}`} {
				resp := h.find(user(t.Context(), name, c.projects...), &jobsv1.SearchRunsRequest{Sort: &sort, Filter: []byte(filter)})
				require.ElementsMatch(t, []byte(c.want), []byte(h.found(resp)), "%s by %s", name, sort)
			}
		}
	}
	ctx := grpc.NewContextWithServerTransportStream(user(t.Context(), "carol"), nil)
	_, err := h.server.SearchRuns(ctx, &jobsv1.SearchRunsRequest{After: new((&place{ID: runID(1)}).String())})
	require.True(t, fault.Is(err, fault.Invalid), "a hidden run must not be a place: %v", err)
}

func TestServer_SearchRuns_values(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.describe()
	h.exec(`INSERT INTO run_summary VALUES ($1, 7, '2026-11-21T03:00:00Z', 2, true)`, runID(3))
	resp := h.find(user(t.Context(), "bob"), &jobsv1.SearchRunsRequest{Columns: []string{"hparam.optim.lr", "metric.loss.last", "metric.loss.min"}})
	require.Len(t, resp.GetRuns(), 2)
	c, b := resp.GetRuns()[0], resp.GetRuns()[1]
	require.JSONEq(t, `{"hparam.optim.lr": "auto", "metric.loss.last": "NaN", "metric.loss.min": null}`, string(c.GetValues()))
	require.JSONEq(t, `{"hparam.optim.lr": 0.01, "metric.loss.last": 0.25, "metric.loss.min": 0.2}`, string(b.GetValues()))
	require.EqualValues(t, 1795230000, c.GetAsOf().GetSeconds())
	require.EqualValues(t, 2, c.GetHparamsLeftOut())
	require.True(t, c.GetMetricsLeftOut())
	require.Nil(t, b.GetAsOf(), "nothing was copied yet")
	require.Equal(t, "Run 3", c.GetRun().GetName())
	require.Nil(t, c.GetRun().Notes)
}

func TestServer_SearchRuns_refusals(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx := grpc.NewContextWithServerTransportStream(user(t.Context(), "alice"), nil)
	byName := place{Sort: "name", ID: runID(1)}
	for name, c := range map[string]struct {
		req   *jobsv1.SearchRunsRequest
		field string
	}{
		"sort":            {&jobsv1.SearchRunsRequest{Sort: new("notes")}, "sort"},
		"sort by metric":  {&jobsv1.SearchRunsRequest{Sort: new("metric.loss")}, "sort"},
		"column":          {&jobsv1.SearchRunsRequest{Columns: []string{"hparam.a", "name"}}, "columns"},
		"place":           {&jobsv1.SearchRunsRequest{After: new("x")}, "after"},
		"another order":   {&jobsv1.SearchRunsRequest{After: new(byName.String())}, "after"},
		"other direction": {&jobsv1.SearchRunsRequest{Sort: new("name"), Direction: new("asc"), After: new(byName.String())}, "after"},
		"place by value":  {&jobsv1.SearchRunsRequest{Sort: new("hparam.a"), After: new((&place{Sort: "hparam.a", ID: runID(1), Value: "NaN"}).String())}, "after"},
		"place of no run": {&jobsv1.SearchRunsRequest{After: new((&place{ID: "run_x"}).String())}, "after"},
		"filter":          {&jobsv1.SearchRunsRequest{Filter: []byte(`{}`)}, "filter"},
	} {
		_, err := h.server.SearchRuns(ctx, c.req)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		require.Equal(t, c.field, fault.From(err).Fields[0].Loc[0], name)
	}
}

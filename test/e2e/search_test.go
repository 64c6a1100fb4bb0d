package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// requireSearchable requires that the search soon has the hyperparameters and metrics of a run that has ended, as the
// run reported them.
func requireSearchable(ctx context.Context, t *testing.T, l *e2eflow.Loop) {
	t.Helper()
	var hparams struct {
		Params map[string]any `json:"params"`
	}
	require.NoError(t, l.Client.Get(ctx, "/api/runs/"+l.Job.RunID+"/hparams", nil, &hparams))
	type point struct {
		Value any `json:"value"`
	}
	var series []struct {
		Key    string `json:"key"`
		Latest point  `json:"latest"`
		Min    point  `json:"min"`
		Max    point  `json:"max"`
		Best   point  `json:"best"` // Value is nil if best is null
	}
	require.NoError(t, l.Client.Get(ctx, "/api/runs/"+l.Job.RunID+"/metrics/summary", nil, &series))
	require.NotEmpty(t, hparams.Params)
	require.NotEmpty(t, series)
	want, columns, best := map[string]any{}, []string{}, map[string][3]any{}
	for key, value := range hparams.Params {
		want["hparam."+key] = value
	}
	for _, s := range series {
		want["metric."+s.Key+".last"] = s.Latest.Value
		want["metric."+s.Key+".best"] = s.Best.Value
		best[s.Key] = [3]any{s.Min.Value, s.Max.Value, s.Best.Value}
	}
	// As the recipe states.
	require.Equal(t, best["train/loss"][0], best["train/loss"][2])
	require.Equal(t, best["val/exact_match"][1], best["val/exact_match"][2])
	require.Nil(t, best["train/lr"][2])
	for column := range want {
		columns = append(columns, column)
	}
	request := map[string]any{
		"filter":  map[string]any{"and": []any{map[string]any{"field": "id", "value": l.Job.RunID}, map[string]any{"field": "metric." + series[0].Key + ".last", "op": "exists"}}},
		"columns": columns, "sort": "metric." + series[0].Key + ".last",
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var found struct {
			Runs []struct {
				Values map[string]any `json:"values"`
				AsOf   *time.Time     `json:"as_of"`
			} `json:"runs"`
		}
		require.NoError(c, l.Client.Post(ctx, "/api/runs/search", request, &found))
		require.Len(c, found.Runs, 1)
		require.Equal(c, want, found.Runs[0].Values)
		require.NotNil(c, found.Runs[0].AsOf)
	}, time.Minute, 200*time.Millisecond)
}

// requireFreshSearch requires that the search has what a running run reports long before the minute after which runs are copied as a
// whole, also the second and the third time.
func requireFreshSearch(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	l := s.Loop(ctx)
	var made struct {
		Run   struct{ ID string }
		Token string
	}
	require.NoError(t, l.Client.Post(ctx, "/api/runs", map[string]any{"name": "fresh", "project": "default"}, &made))
	report := func(path, body string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Service-Token", made.Token)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	for step := range 3 {
		report("/api/ingest/metrics", fmt.Sprintf(`{"run_id":%q,"points":[{"key":"loss","step":%d,"value":%d,"ts":"2026-11-21T03:00:00Z"}]}`, made.Run.ID, step, -step))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			var found struct {
				Runs []struct{ Values map[string]any }
			}
			require.NoError(c, l.Client.Post(ctx, "/api/runs/search", map[string]any{
				"filter": map[string]any{"field": "id", "value": made.Run.ID}, "columns": []string{"metric.loss.last", "metric.loss.min", "metric.loss.max"},
			}, &found))
			require.Len(c, found.Runs, 1)
			require.Equal(c, map[string]any{"metric.loss.last": -float64(step), "metric.loss.min": -float64(step), "metric.loss.max": 0.0}, found.Runs[0].Values)
		}, 20*time.Second, 100*time.Millisecond)
	}
	report("/api/ingest/lifecycle", fmt.Sprintf(`{"run_id":%q,"event":"succeeded","ts":"2026-11-21T03:00:00Z"}`, made.Run.ID))
}

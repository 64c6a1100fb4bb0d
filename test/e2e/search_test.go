package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
)

// requireSearchable requires that the search soon has the hyperparameters and metrics of a run that has ended, as the
// run reported them.
func requireSearchable(ctx context.Context, t *testing.T, l *e2eflow.Loop) {
	t.Helper()
	var hparams struct {
		Params map[string]any `json:"params"`
	}
	require.NoError(t, l.Client.Get(ctx, "/api/runs/"+l.Job.RunID+"/hparams", nil, &hparams))
	var series []struct {
		Key    string `json:"key"`
		Latest struct {
			Value any `json:"value"`
		} `json:"latest"`
	}
	require.NoError(t, l.Client.Get(ctx, "/api/runs/"+l.Job.RunID+"/metrics/summary", nil, &series))
	require.NotEmpty(t, hparams.Params)
	require.NotEmpty(t, series)
	want, columns := map[string]any{}, []string{}
	for key, value := range hparams.Params {
		want["hparam."+key] = value
	}
	for _, s := range series {
		want["metric."+s.Key+".last"] = s.Latest.Value
	}
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

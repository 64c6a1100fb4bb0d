// Package e2e tests training and serving end to end, from the dataset to the chat, through the REST API. It
// starts installations as users do: with a single process and with one process per service.
package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

func TestLoop(t *testing.T) {
	for name, start := range testenv.DrawnKinds(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s := start(t, testenv.Options{Admin: true})
			l := testenv.Train(ctx, t, s)
			require.Equal(t, 1, l.Job.Attempt)
			require.NotNil(t, l.Job.ExecutorRunningAt)
			require.NotNil(t, l.Job.RunningAt)
			require.True(t, l.Job.ExecutorRunningAt.Before(*l.Job.RunningAt), "the executor must report the start before the training does")
			requireSearchable(ctx, t, l)
			q := testenv.Serve(ctx, t, s, l)
			streamed, events, err := l.ChatStream(ctx, q.Question)
			require.NoError(t, err)
			require.Equal(t, q.Expected, streamed)
			require.Positive(t, events)
			calls, err := l.AwaitTraffic(ctx, 2)
			require.NoError(t, err)
			require.Equal(t, "application", calls[0].TokenName)
			require.Equal(t, "ok", calls[0].Outcome)
			require.True(t, calls[0].Stream, "the newest call must come first")
			requireMeasured(ctx, t, s, l.Deployment.ID, len(calls))
			revoke(ctx, t, l)
			if name == "split" {
				requireCalls(ctx, t, s, l)
			}
		})
	}
}

// requireMeasured waits until /metrics has the given number of calls of a deployment and none in flight.
func requireMeasured(ctx context.Context, t *testing.T, s *testenv.Installation, deploymentID string, calls int) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+"/metrics", nil)
		require.NoError(c, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(c, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(c, err)
		of := fmt.Sprintf("{deployment_id=%q} ", deploymentID)
		for name, want := range map[string]int{
			"inference_call_duration_seconds_count": calls, "inference_time_to_first_token_seconds_count": calls, "inference_calls_in_flight": 0,
		} {
			require.Contains(c, string(body), fmt.Sprint(name, of, want, "\n"))
		}
	}, testenv.StageTimeout, 10*time.Millisecond)
}

// revoke deletes the token and requires that the token is invalid as soon as the response to the deletion has
// arrived.
func revoke(ctx context.Context, t *testing.T, l *e2eflow.Loop) {
	t.Helper()
	path := "/api/model-deployments/" + l.Deployment.ID + "/tokens/" + l.TokenID
	require.NoError(t, l.Client.Do(ctx, http.MethodDelete, path, nil, nil))
	a, err := l.Client.With(l.Token).Call(ctx, http.MethodGet, "/inference/"+l.Deployment.ID+"/v1/models", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, a.Status)
}

func TestDatasetVersion_pushedAgainConflicts(t *testing.T) {
	ctx := t.Context()
	s := testenv.Single(t, testenv.Options{})
	l := s.Loop(ctx)
	_, err := l.PushDataset(ctx, "v1", "rows.jsonl", []byte("{}\n"))
	require.NoError(t, err)
	_, err = l.PushDataset(ctx, "v1", "rows.jsonl", []byte("{}\n"))
	require.ErrorContains(t, err, "409")
}

// Package e2e tests training and serving end to end, from the dataset to the chat, through the REST API. It
// starts installations as users do: with a single process and with one process per service.
package e2e

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

func TestLoop(t *testing.T) {
	for name, start := range testenv.DrawnKinds(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s := start(t, testenv.Options{})
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
			revoke(ctx, t, l)
		})
	}
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

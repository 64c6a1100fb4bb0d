// Package e2e tests training and serving end to end, from the dataset to the chat, through the REST API. It
// starts installations as users do: with a single process and with one process per service.
package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// train runs a Loop, which trains, deploys and queries a model, from the dataset to the end of the run. It also
// follows the logs and metrics of the run.
func train(ctx context.Context, t *testing.T, s *testenv.Installation) *e2eflow.Loop {
	t.Helper()
	l := s.Loop(ctx)
	lesson := e2eflow.OneDigit()
	rows, err := lesson.Rows(1)
	require.NoError(t, err)
	dataset, err := l.PushDataset(ctx, "v1", "additions.jsonl", rows)
	require.NoError(t, err)
	spec, err := l.Spec(ctx, dataset, lesson.Hparams, 1)
	require.NoError(t, err)
	require.NoError(t, l.Submit(ctx, spec))
	var wg sync.WaitGroup
	var lines []e2eflow.LogLine
	points := map[string]int{}
	var logsErr, metricsErr error
	wg.Go(func() { logsErr = l.FollowLogs(ctx, func(line e2eflow.LogLine) { lines = append(lines, line) }) })
	wg.Go(func() { metricsErr = l.FollowMetrics(ctx, func(p e2eflow.Point) { points[p.Key]++ }) })
	require.NoError(t, l.AwaitEnd(ctx), s.Tail())
	wg.Wait()
	require.NoError(t, logsErr)
	require.NoError(t, metricsErr)
	s.RequireTrainingLines(ctx, l, lines)
	require.Positive(t, points["train/loss"])
	require.Positive(t, points["val/exact_match"])
	return l
}

// solvedQuestion returns a held-out question that the model solved in the last validation round.
func solvedQuestion(ctx context.Context, t *testing.T, l *e2eflow.Loop) e2eflow.Sample {
	t.Helper()
	samples, err := l.Samples(ctx)
	require.NoError(t, err)
	for _, s := range samples {
		if s.Reward == 1 && s.Answer == s.Expected {
			return s
		}
	}
	require.FailNow(t, "the model solved no held-out question", fmt.Sprint(samples))
	return e2eflow.Sample{}
}

// serve deploys the model of the run. It sends the model a question that the model solved in the last validation
// round, and returns the question.
func serve(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop) e2eflow.Sample {
	t.Helper()
	artifact, err := l.FindArtifact(ctx, "merged_model", "gguf")
	require.NoError(t, err)
	version, err := l.Register(ctx, artifact)
	require.NoError(t, err)
	again, err := l.Register(ctx, artifact)
	require.NoError(t, err)
	require.Equal(t, version.ID, again.ID, "registering an artifact again must return the same version")
	require.NoError(t, l.Deploy(ctx, l.Name, version, nil))
	require.NoError(t, l.PromoteTooEarly(ctx))
	require.NoError(t, l.AwaitReady(ctx), s.Tail())
	require.NoError(t, l.Promote(ctx))
	require.NoError(t, l.MakeToken(ctx, "application"))
	q := solvedQuestion(ctx, t, l)
	answer, err := l.Chat(ctx, q.Question)
	require.NoError(t, err, s.Tail())
	require.Equal(t, q.Expected, answer)
	return q
}

func TestLoop(t *testing.T) {
	for name, start := range testenv.DrawnKinds(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s := start(t, testenv.Options{})
			l := train(ctx, t, s)
			require.Equal(t, 1, l.Job.Attempt)
			require.NotNil(t, l.Job.ExecutorRunningAt)
			require.NotNil(t, l.Job.RunningAt)
			require.True(t, l.Job.ExecutorRunningAt.Before(*l.Job.RunningAt), "the executor must report the start before the training does")
			requireSearchable(ctx, t, l)
			q := serve(ctx, t, s, l)
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

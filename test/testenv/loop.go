package testenv

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
)

// Train runs a Loop, which trains, deploys and queries a model, from the dataset to the end of the run. It also
// follows the logs and metrics of the run.
func Train(ctx context.Context, t *testing.T, s *Installation) *e2eflow.Loop {
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

// SolvedQuestion returns a held-out question that the model solved in the last validation round.
func SolvedQuestion(ctx context.Context, t *testing.T, l *e2eflow.Loop) e2eflow.Sample {
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

// Serve deploys the model of the run. It sends the model a question that the model solved in the last validation
// round, and returns the question.
func Serve(ctx context.Context, t *testing.T, s *Installation, l *e2eflow.Loop) e2eflow.Sample {
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
	q := SolvedQuestion(ctx, t, l)
	answer, err := l.Chat(ctx, q.Question)
	require.NoError(t, err, s.Tail())
	require.Equal(t, q.Expected, answer)
	return q
}

// KillAll kills every process.
func KillAll(t *testing.T, s *Installation) {
	t.Helper()
	for _, name := range s.Order {
		s.Processes[name].Kill()
	}
}

// StartAll starts every process again with the same configuration.
func StartAll(s *Installation) {
	for _, name := range s.Order {
		s.Processes[name].Start()
	}
	s.AwaitServing()
}

// DataFolder returns the path of a folder with data of the installation. With a single process, this is `single` in the
// data folder of signalboxd. With one process per service, it is `split` in the folder of the installation.
func (s *Installation) DataFolder(single, split string) string {
	if s.Processes["signalboxd"] != nil {
		return filepath.Join(s.Dir, "data", single)
	}
	return filepath.Join(s.Dir, split)
}

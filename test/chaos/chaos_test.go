// Package chaos kills each process of an installation at each stage of the loop, as a crash would, and
// demands that the loop ends well with its first attempt. The matrix is generated; CI runs five rows of
// it, spread over stages and processes, and CHAOS=all runs every row.
package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/loop"
	"github.com/signalbox-dev/signalbox/test/stand"
)

// stage is a point of the loop at which a process is killed.
type stage string

const (
	environment stage = "environment"
	training    stage = "training"
	upload      stage = "upload"
	engineStart stage = "engine_start"
	promoted    stage = "promoted"
)

func stages() []stage { return []stage{environment, training, upload, engineStart, promoted} }

// row is one cell of the matrix.
type row struct {
	stage  stage
	victim string
}

func (r row) String() string { return fmt.Sprintf("%s/%s", r.stage, r.victim) }

// matrix is every stage with every process of a shape.
func matrix(victims []string) []row {
	var rows []row
	for _, s := range stages() {
		for _, v := range victims {
			rows = append(rows, row{s, v})
		}
	}
	return rows
}

// some picks n rows so that every stage has its turn, with another process each.
func some(rows []row, n int) []row {
	per := len(rows) / len(stages())
	var out []row
	for i := range n {
		out = append(out, rows[(i%len(stages()))*per+(i*3)%per])
	}
	return out
}

func all() bool { return os.Getenv("CHAOS") == "all" }

func TestKillsInTheSplitShape(t *testing.T) {
	s := stand.Split(t, stand.Options{OwnEnvironments: true, Env: roomy()})
	rows := matrix([]string{"auth", "jobs", "ingest", "registry", "inference", "gateway", "agent"})
	if !all() {
		rows = some(rows, 4)
	}
	for _, r := range rows {
		t.Run(r.String(), func(t *testing.T) { walk(t, s, r, restartOne) })
	}
}

func TestKillsOfTheOneProcess(t *testing.T) {
	s := stand.Single(t, stand.Options{OwnEnvironments: true, Env: roomy()})
	rows := matrix([]string{"signalboxd"})
	if !all() {
		rows = rows[1:2]
	}
	for _, r := range rows {
		t.Run(r.String(), func(t *testing.T) { walk(t, s, r, restartSingle) })
	}
}

func restartOne(s *stand.Stand, victim string) {
	s.Processes[victim].Kill()
	s.Processes[victim].Start()
}

func restartSingle(s *stand.Stand, _ string) {
	s.Processes["signalboxd"].Kill()
	s.StartSingle()
}

// walk takes the loop through its stages and strikes at the row's.
func walk(t *testing.T, s *stand.Stand, r row, strike func(s *stand.Stand, victim string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*stand.Patience)
	defer cancel()
	at := func(now stage) {
		if now == r.stage {
			strike(s, r.victim)
		}
	}
	if r.stage == environment {
		forgetEnvironments(t, s)
	}
	l := s.Loop(ctx)
	submit(ctx, t, l)
	awaitPhase(ctx, t, l, "preparing", "running", "collecting", "exited")
	at(environment)
	awaitMetric(ctx, t, l)
	at(training)
	awaitArtifact(ctx, t, l, "hf_export")
	at(upload)
	require.NoError(t, l.AwaitEnd(ctx), s.Tail())
	require.Equal(t, 1, l.Job.Attempt, "the attempt is the first one")

	artifact, err := l.FindArtifact(ctx, "merged_model", "gguf")
	require.NoError(t, err)
	version, err := l.Register(ctx, artifact)
	require.NoError(t, err)
	require.NoError(t, l.Deploy(ctx, l.Name, version, nil))
	at(engineStart)
	require.NoError(t, l.AwaitReady(ctx), s.Tail())
	require.NoError(t, l.Promote(ctx))
	require.NoError(t, l.MakeToken(ctx, "chaos"))
	at(promoted)
	answerRight(ctx, t, s, l)
	lines(ctx, t, l)
}

// submit starts the suites' short lesson.
func submit(ctx context.Context, t *testing.T, l *loop.Loop) {
	t.Helper()
	lesson := loop.OneDigit()
	rows, err := lesson.Rows(1)
	require.NoError(t, err)
	dataset, err := l.PushDataset(ctx, "v1", "additions.jsonl", rows)
	require.NoError(t, err)
	spec, err := l.Spec(ctx, dataset, lesson.Hparams, 1)
	require.NoError(t, err)
	require.NoError(t, l.Submit(ctx, spec))
}

// forgetEnvironments makes the next attempt build its environment again.
func forgetEnvironments(t *testing.T, s *stand.Stand) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(s.Environments, "*"))
	require.NoError(t, err)
	for _, d := range dirs {
		require.NoError(t, os.RemoveAll(d))
	}
}

const look = 20 * time.Millisecond

func eventually(ctx context.Context, t *testing.T, what string, cond func() bool) {
	t.Helper()
	for !cond() {
		select {
		case <-ctx.Done():
			require.FailNow(t, "it did not come true: "+what)
		case <-time.After(look):
		}
	}
}

func awaitPhase(ctx context.Context, t *testing.T, l *loop.Loop, phases ...string) {
	t.Helper()
	eventually(ctx, t, fmt.Sprint(phases), func() bool {
		var attempts []struct {
			Phase *string `json:"phase"`
		}
		if err := l.Client.Get(ctx, "/api/jobs/"+l.Job.ID+"/attempts", nil, &attempts); err != nil || len(attempts) == 0 {
			return false
		}
		for _, p := range phases {
			if got := attempts[0].Phase; got != nil && *got == p {
				return true
			}
		}
		return false
	})
}

func awaitMetric(ctx context.Context, t *testing.T, l *loop.Loop) {
	t.Helper()
	eventually(ctx, t, "a metric", func() bool {
		var series []struct {
			Key string `json:"key"`
		}
		return l.Client.Get(ctx, "/api/runs/"+l.Job.RunID+"/metrics", nil, &series) == nil && len(series) > 0
	})
}

func awaitArtifact(ctx context.Context, t *testing.T, l *loop.Loop, kind string) {
	t.Helper()
	eventually(ctx, t, kind, func() bool {
		list, err := l.Artifacts(ctx)
		if err != nil {
			return false
		}
		for _, a := range list {
			if a.Kind == kind {
				return true
			}
		}
		return false
	})
}

// answerRight demands the right answer to a held-out question. After a kill at `promoted` the revision
// may have to become ready again, which the walk waits for.
func answerRight(ctx context.Context, t *testing.T, s *stand.Stand, l *loop.Loop) {
	t.Helper()
	samples, err := l.Samples(ctx)
	require.NoError(t, err)
	for _, q := range samples {
		if q.Reward != 1 {
			continue
		}
		answer, err := l.Chat(ctx, q.Question)
		require.NoError(t, err, s.Tail())
		require.Equal(t, q.Expected, answer)
		calls, err := l.AwaitTraffic(ctx, 1)
		require.NoError(t, err)
		require.Equal(t, "ok", calls[0].Outcome)
		return
	}
	require.FailNow(t, "no held-out pair was answered right")
}

// lines demands that no line of the log is missing or doubled, whatever was killed.
func lines(ctx context.Context, t *testing.T, l *loop.Loop) {
	t.Helper()
	var seen []loop.LogLine
	require.NoError(t, l.FollowLogs(ctx, func(line loop.LogLine) { seen = append(seen, line) }))
	require.NotEmpty(t, seen)
	for i, line := range seen {
		require.EqualValues(t, i+1, line.Seq)
	}
}

// roomy gives the node a place for the engine that every row leaves behind.
func roomy() map[string]string { return map[string]string{"SERVICE_JOBS_NODE_SLOTS": "200"} }

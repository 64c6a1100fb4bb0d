// Package chaos kills each process of an installation in each stage of training and serving, as a crash
// would. It requires that the training succeeds at its first attempt, that the model is then served, and
// that no log line is lost or duplicated. Each kill happens in the middle of a stage: the installer, the
// training, the upload or the engine is frozen meanwhile. The matrix has a row for each combination of
// stage and process. CI runs five rows, which a seed selects from different stages and processes; CHAOS=all
// runs every row.
package chaos

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

func all() bool { return os.Getenv("CHAOS") == "all" }

// roomy gives the node enough slots for the engines that the rows leave running.
func roomy() map[string]string { return map[string]string{"SERVICE_JOBS_NODE_SLOTS": "200"} }

func TestSplitInstallation_killedProcesses(t *testing.T) {
	w := newWire(t)
	rows := matrix(victims())
	if !all() {
		rows = some(rows, 4, draw.Seed(t))
	}
	s := testenv.Split(t, testenv.Options{OwnEnvironments: buildsEnvironments(rows), Env: w.env()})
	w.connect(t, s)
	for _, r := range rows {
		t.Run(r.String(), func(t *testing.T) { (&walk{T: t, s: s, w: w, row: r}).run() })
	}
}

func TestSingleProcess_killed(t *testing.T) {
	w := newWire(t)
	rows := matrix([]string{"signalboxd"})
	if !all() {
		rows = some(rows, 1, draw.Seed(t)+4) // the stage that the four rows of TestSplitInstallation leave out
	}
	s := testenv.Single(t, testenv.Options{OwnEnvironments: buildsEnvironments(rows), Env: w.env()})
	w.connect(t, s)
	for _, r := range rows {
		t.Run(r.String(), func(t *testing.T) { (&walk{T: t, s: s, w: w, row: r}).run() })
	}
}

// buildsEnvironments reports whether a row needs an environment that is being built. Such a row deletes environments, so
// it cannot use the shared ones.
func buildsEnvironments(rows []row) bool {
	return slices.ContainsFunc(rows, func(r row) bool { return r.stage == environment })
}

// walk tests one row: it trains and serves a model stage by stage and kills the row's process in the row's
// stage. Meanwhile another job prints numbers, and no number may be lost.
type walk struct {
	*testing.T
	s   *testenv.Stand
	w   *wire
	row row
	l   *e2eflow.Loop
	c   *testenv.Counter
}

func (w *walk) run() {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 2*testenv.Patience)
	defer cancel()
	whole := w.s.T
	w.s.T = w.T // a failure must fail only the test of this row
	defer func() { w.s.T = whole }()
	w.s.URL = w.w.target.Load().String() // only requests of the training use the proxy
	w.l = w.s.Loop(ctx)
	w.c = w.s.Count(ctx, w.l)
	w.train(ctx)
	pid := w.serve(ctx)
	if w.row.stage == promoted {
		w.strike(ctx, func() {})
		// The restarted agent adopts a running engine, so the process id must not change.
		require.NoError(w, w.l.AwaitReady(ctx), w.s.Tail())
	}
	w.answerRight(ctx)
	require.Equal(w, pid, w.enginePID(ctx), "the promoted engine must be the one that serves")
	w.c.End(ctx)
	var lines []e2eflow.LogLine
	require.NoError(w, w.l.FollowLogs(ctx, func(line e2eflow.LogLine) { lines = append(lines, line) }))
	w.s.LessonLines(ctx, w.l, lines)
}

// strike kills the row's process while the counter job prints numbers. It then requests the stop of the
// counter job, but does not wait for it.
func (w *walk) strike(ctx context.Context, release func()) {
	w.Helper()
	w.c.AwaitMore(ctx, 1)
	strike(ctx, w.T, w.s, w.row, w.l, release)
	w.c.AwaitMore(ctx, 3)
	w.c.Stop(ctx)
}

// train submits the training and waits until it has ended.
func (w *walk) train(ctx context.Context) {
	w.Helper()
	if w.row.stage == environment {
		w.c.AwaitMore(ctx, 0) // build the environment of the counter job first, so that holdBuild does not freeze this build
		w.forgetEnvironment()
	}
	w.submit(ctx)
	switch w.row.stage {
	case environment:
		w.strike(ctx, holdBuild(ctx, w.T, w.s))
	case training:
		w.awaitMetric(ctx)
		_, release := holdWork(ctx, w.T, w.s, w.l.Job.ID, "run", "chat_tiny.train")
		w.strike(ctx, release)
	case upload:
		held := w.w.arm(w.T, "/runs/"+w.l.Job.RunID+"/1/merged_model/")
		w.strike(ctx, holdUpload(ctx, w.T, w.s, held))
	case engineStart, promoted: // these stages follow the training
	}
	require.NoError(w, w.l.AwaitEnd(ctx), w.s.Tail())
	require.Equal(w, 1, w.l.Job.Attempt, "the first attempt must succeed")
	list, err := w.l.Artifacts(ctx)
	require.NoError(w, err)
	var kinds []string
	for _, a := range list {
		kinds = append(kinds, a.Kind)
	}
	require.Equal(w, []string{"checkpoint", "hf_export", "merged_model"}, kinds, "each artifact must exist once")
}

// serve deploys and promotes the model of the run. It returns the process id of the engine.
func (w *walk) serve(ctx context.Context) (pid int) {
	w.Helper()
	artifact, err := w.l.FindArtifact(ctx, "merged_model", "gguf")
	require.NoError(w, err)
	version, err := w.l.Register(ctx, artifact)
	require.NoError(w, err)
	require.NoError(w, w.l.Deploy(ctx, w.l.Name, version, nil))
	held := 0
	if w.row.stage == engineStart {
		pid, release := holdWork(ctx, w.T, w.s, w.l.Deployment.ID, filepath.Join("starts", "0"), "llamacpp.py")
		held = pid
		var now e2eflow.Revision
		require.NoError(w, w.l.Client.Get(ctx, w.revision(), nil, &now))
		require.False(w, now.Ready, "the revision must not be ready before the engine has generated")
		w.strike(ctx, release)
	}
	require.NoError(w, w.l.AwaitReady(ctx), w.s.Tail())
	pid = w.enginePID(ctx)
	if held != 0 {
		require.Equal(w, held, pid, "the engine that was starting must become ready")
	}
	require.NoError(w, w.l.Promote(ctx))
	require.NoError(w, w.l.MakeToken(ctx, "chaos"))
	return pid
}

func (w *walk) revision() string {
	return "/api/model-deployments/" + w.l.Deployment.ID + "/revisions/" + strconv.Itoa(w.l.Revision.Number)
}

// enginePID returns the process id of the revision's only engine. The process must be running.
func (w *walk) enginePID(ctx context.Context) int {
	w.Helper()
	var revision struct {
		Replicas []struct {
			PID int `json:"engine_pid"`
		} `json:"replicas"`
	}
	require.NoError(w, w.l.Client.Get(ctx, w.revision(), nil, &revision))
	require.Len(w, revision.Replicas, 1)
	pid := revision.Replicas[0].PID
	require.Contains(w, commandLine(pid), "llamacpp.py", "process %d", pid)
	return pid
}

// submit submits the short training that these tests use.
func (w *walk) submit(ctx context.Context) {
	w.Helper()
	lesson := e2eflow.OneDigit()
	rows, err := lesson.Rows(1)
	require.NoError(w, err)
	dataset, err := w.l.PushDataset(ctx, "v1", "additions.jsonl", rows)
	require.NoError(w, err)
	spec, err := w.l.Spec(ctx, dataset, lesson.Hparams, 1)
	require.NoError(w, err)
	require.NoError(w, w.l.Submit(ctx, spec))
}

// forgetEnvironment deletes the environments of trainings, so that the next attempt builds one. It keeps
// the environment of the engine.
func (w *walk) forgetEnvironment() {
	w.Helper()
	dirs, err := filepath.Glob(filepath.Join(w.s.Environments, "*", "lib", "*", "site-packages", "numpy"))
	require.NoError(w, err)
	for _, numpy := range dirs {
		packages := filepath.Dir(numpy)
		if _, err := os.Stat(filepath.Join(packages, "xllamacpp")); os.IsNotExist(err) {
			require.NoError(w, os.RemoveAll(filepath.Join(packages, "..", "..", "..")))
		}
	}
}

func (w *walk) awaitMetric(ctx context.Context) {
	w.Helper()
	w.s.Until(ctx, "a metric", func() bool {
		var series []struct {
			Key string `json:"key"`
		}
		return w.l.Client.Get(ctx, "/api/runs/"+w.l.Job.RunID+"/metrics", nil, &series) == nil && len(series) > 0
	})
}

// answerRight requires that the model solves a held-out question and that the call has a traffic
// record.
func (w *walk) answerRight(ctx context.Context) {
	w.Helper()
	samples, err := w.l.Samples(ctx)
	require.NoError(w, err)
	for _, q := range samples {
		if q.Reward != 1 {
			continue
		}
		answer, err := w.l.Chat(ctx, q.Question)
		require.NoError(w, err, w.s.Tail())
		require.Equal(w, q.Expected, answer)
		calls, err := w.l.AwaitTraffic(ctx, 1)
		require.NoError(w, err)
		require.Equal(w, "ok", calls[0].Outcome)
		return
	}
	require.FailNow(w, "the model solved no held-out question")
}

// Package chaos kills each process of an installation in each stage of training and serving, as a crash would. It
// requires that the training succeeds at its first attempt, that the model is then served, and that no log line is
// lost or duplicated. In a stage before the promotion of the model, the tests first freeze the installer, the
// training, the upload or the engine, so that the kill comes in the middle of the stage. The matrix has a row for
// each combination of stage and process. In CI, a seed selects five rows, each with a different process; CHAOS=all
// runs every row.
//
// The tests in faults_test.go restart and kill all parts while trainings run and a deployment is called. In CI, each
// part has three faults. If CHAOS_FAULTS is set, it is the number of planned restarts, and also of kills, of all
// parts together. The test of a slow engine (hung_test.go) takes 20 seconds, or the duration in CHAOS_SATURATION. The
// control plane is away for 12 seconds, or for the duration in CHAOS_AWAY (lease_test.go).
//
// The agent of a Slurm cluster is killed in each stage of an attempt (slurm_stages_test.go), 20 times, or CHAOS_SLURM
// times. Of the ways in which the fence of an attempt on Slurm ends (slurm_fence_test.go), the seed selects one; CHAOS=all
// runs all.
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

func allRows() bool { return os.Getenv("CHAOS") == "all" }

// manySlots gives the node enough slots for the engines that the tested rows leave running.
func manySlots() map[string]string { return map[string]string{"SERVICE_JOBS_NODE_SLOTS": "200"} }

func TestSplitInstallation_killedProcesses(t *testing.T) {
	p := newUploadProxy(t)
	rows := matrix(processes())
	if !allRows() {
		rows = selectRows(rows, 4, draw.Seed(t))
	}
	s := testenv.Split(t, testenv.Options{OwnEnvironments: buildsEnvironments(rows), Env: p.env()})
	p.connect(t, s)
	for _, r := range rows {
		t.Run(r.String(), func(t *testing.T) { (&scenario{T: t, s: s, proxy: p, row: r}).run() })
	}
}

func TestSingleProcess_killed(t *testing.T) {
	p := newUploadProxy(t)
	rows := matrix([]string{"signalboxd"})
	if !allRows() {
		rows = leftOut(rows, selectRows(matrix(processes()), 4, draw.Seed(t)))
	}
	s := testenv.Single(t, testenv.Options{OwnEnvironments: buildsEnvironments(rows), Env: p.env()})
	p.connect(t, s)
	for _, r := range rows {
		t.Run(r.String(), func(t *testing.T) { (&scenario{T: t, s: s, proxy: p, row: r}).run() })
	}
}

// buildsEnvironments reports whether any of the rows kills a process while an environment is being built. Such a row
// deletes environments, so it cannot use the shared environments.
func buildsEnvironments(rows []row) bool {
	return slices.ContainsFunc(rows, func(r row) bool { return r.stage == environment })
}

// scenario tests one row: it trains and serves a model stage by stage and kills the row's process in the row's
// stage. Meanwhile another job prints numbers, and no number may be lost.
type scenario struct {
	*testing.T
	s     *testenv.Installation
	proxy *uploadProxy
	row   row
	l     *e2eflow.Loop
	c     *testenv.Counter
}

func (sc *scenario) run() {
	sc.Helper()
	ctx, cancel := context.WithTimeout(sc.Context(), 2*testenv.StageTimeout)
	defer cancel()
	suite := sc.s.T
	sc.s.T = sc.T // a failure must fail only the test of this row
	defer func() { sc.s.T = suite }()
	sc.s.URL = sc.proxy.target.Load().String() // only the training sends its requests through the proxy
	sc.l = sc.s.Loop(ctx)
	sc.c = sc.s.Count(ctx, sc.l)
	sc.train(ctx)
	pid := sc.serve(ctx)
	if sc.row.stage == promoted {
		sc.kill(ctx, func() {})
		// The restarted agent adopts a running engine, so the process id must not change.
		require.NoError(sc, sc.l.AwaitReady(ctx), sc.s.Tail())
	}
	sc.requireCorrectAnswer(ctx)
	require.Equal(sc, pid, sc.enginePID(ctx), "the engine that was promoted must still serve")
	sc.c.End(ctx)
	var lines []e2eflow.LogLine
	require.NoError(sc, sc.l.FollowLogs(ctx, func(line e2eflow.LogLine) { lines = append(lines, line) }))
	sc.s.RequireTrainingLines(ctx, sc.l, lines)
}

// kill kills the row's process while the counter job prints numbers, and calls the function release after the kill.
// It then requests the stop of the counter job, but does not wait until the job has stopped.
func (sc *scenario) kill(ctx context.Context, release func()) {
	sc.Helper()
	sc.c.AwaitMore(ctx, 1)
	killProcess(ctx, sc.T, sc.s, sc.row, sc.l, release)
	sc.c.AwaitMore(ctx, 3)
	sc.c.Stop(ctx)
}

// train submits the training, kills the row's process if its stage is part of the training, and waits until the
// training has succeeded.
func (sc *scenario) train(ctx context.Context) {
	sc.Helper()
	if sc.row.stage == environment {
		sc.c.AwaitMore(ctx, 0) // the counter job now has its environment, so freezeBuild cannot freeze its build
		sc.forgetEnvironment()
	}
	sc.submit(ctx)
	switch sc.row.stage {
	case environment:
		sc.kill(ctx, freezeBuild(ctx, sc.T, sc.s))
	case training:
		sc.awaitMetric(ctx)
		_, release := freezeWork(ctx, sc.T, sc.s, sc.l.Job.ID, "run", "chat_tiny.train")
		sc.kill(ctx, release)
	case upload:
		blocked := sc.proxy.blockNext(sc.T, "/runs/"+sc.l.Job.RunID+"/1/merged_model/")
		sc.kill(ctx, awaitBlockedUpload(ctx, sc.T, sc.s, blocked))
	case engineStart, promoted: // these stages follow the training
	}
	require.NoError(sc, sc.l.AwaitEnd(ctx), sc.s.Tail())
	require.Equal(sc, 1, sc.l.Job.Attempt, "the first attempt must succeed")
	list, err := sc.l.Artifacts(ctx)
	require.NoError(sc, err)
	var kinds []string
	for _, a := range list {
		kinds = append(kinds, a.Kind)
	}
	require.Equal(sc, []string{"checkpoint", "hf_export", "merged_model"}, kinds, "each artifact must exist once")
}

// serve deploys and promotes the model of the run, and kills the row's process if its stage is the start of the engine.
// It returns the process id of the engine.
func (sc *scenario) serve(ctx context.Context) (pid int) {
	sc.Helper()
	artifact, err := sc.l.FindArtifact(ctx, "merged_model", "gguf")
	require.NoError(sc, err)
	version, err := sc.l.Register(ctx, artifact)
	require.NoError(sc, err)
	require.NoError(sc, sc.l.Deploy(ctx, sc.l.Name, version, nil))
	frozen := 0
	if sc.row.stage == engineStart {
		pid, release := freezeWork(ctx, sc.T, sc.s, sc.l.Deployment.ID, filepath.Join("starts", "0"), "llamacpp.py")
		frozen = pid
		var now e2eflow.Revision
		require.NoError(sc, sc.l.Client.Get(ctx, sc.revision(), nil, &now))
		require.False(sc, now.Ready, "the revision must not be ready before the engine has generated text")
		sc.kill(ctx, release)
	}
	require.NoError(sc, sc.l.AwaitReady(ctx), sc.s.Tail())
	pid = sc.enginePID(ctx)
	if frozen != 0 {
		require.Equal(sc, frozen, pid, "the engine that was starting must become ready")
	}
	require.NoError(sc, sc.l.Promote(ctx))
	require.NoError(sc, sc.l.MakeToken(ctx, "chaos"))
	return pid
}

func (sc *scenario) revision() string {
	return "/api/model-deployments/" + sc.l.Deployment.ID + "/revisions/" + strconv.Itoa(sc.l.Revision.Number)
}

// enginePID returns the process id of the revision's only engine. The process must be running.
func (sc *scenario) enginePID(ctx context.Context) int {
	sc.Helper()
	var revision struct {
		Replicas []struct {
			PID int `json:"engine_pid"`
		} `json:"replicas"`
	}
	require.NoError(sc, sc.l.Client.Get(ctx, sc.revision(), nil, &revision))
	require.Len(sc, revision.Replicas, 1)
	pid := revision.Replicas[0].PID
	require.Contains(sc, commandLine(pid), "python", "process %d must be the engine", pid)
	return pid
}

// submit submits the short training that these tests use.
func (sc *scenario) submit(ctx context.Context) {
	sc.Helper()
	lesson := e2eflow.OneDigit()
	rows, err := lesson.Rows(1)
	require.NoError(sc, err)
	dataset, err := sc.l.PushDataset(ctx, "v1", "additions.jsonl", rows)
	require.NoError(sc, err)
	spec, err := sc.l.Spec(ctx, dataset, lesson.Hparams, 1)
	require.NoError(sc, err)
	require.NoError(sc, sc.l.Submit(ctx, spec))
}

// forgetEnvironment deletes the environments of trainings, so that the next attempt builds one. It keeps
// the environment of the engine.
func (sc *scenario) forgetEnvironment() {
	sc.Helper()
	dirs, err := filepath.Glob(filepath.Join(sc.s.Environments, "*", "lib", "*", "site-packages", "numpy"))
	require.NoError(sc, err)
	for _, numpy := range dirs {
		packages := filepath.Dir(numpy)
		if _, err := os.Stat(filepath.Join(packages, "xllamacpp")); os.IsNotExist(err) {
			require.NoError(sc, os.RemoveAll(filepath.Join(packages, "..", "..", "..")))
		}
	}
}

func (sc *scenario) awaitMetric(ctx context.Context) {
	sc.Helper()
	sc.s.Until(ctx, "the training has reported a metric", func() bool {
		var series []struct {
			Key string `json:"key"`
		}
		return sc.l.Client.Get(ctx, "/api/runs/"+sc.l.Job.RunID+"/metrics", nil, &series) == nil && len(series) > 0
	})
}

// requireCorrectAnswer sends a held-out question that the model solved in its validation. It requires that the served
// model solves the question and that the call has a traffic record.
func (sc *scenario) requireCorrectAnswer(ctx context.Context) {
	sc.Helper()
	samples, err := sc.l.Samples(ctx)
	require.NoError(sc, err)
	for _, q := range samples {
		if q.Reward != 1 {
			continue
		}
		answer, err := sc.l.Chat(ctx, q.Question)
		require.NoError(sc, err, sc.s.Tail())
		require.Equal(sc, q.Expected, answer)
		calls, err := sc.l.AwaitTraffic(ctx, 1)
		require.NoError(sc, err)
		require.Equal(sc, "ok", calls[0].Outcome)
		return
	}
	require.FailNow(sc, "the model solved no held-out question in its validation")
}

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// waitingJob is a job whose command waits until the test releases it.
type waitingJob struct {
	l   *e2eflow.Loop
	dir string // the work folder of the job on the host
}

// startWaitingJob submits a job with the given command. The command creates a file with the name in mark and waits
// for the file `go` in the same folder.
func startWaitingJob(ctx context.Context, t *testing.T, s *testenv.Installation, mark string, command ...string) *waitingJob {
	t.Helper()
	h := &waitingJob{l: s.Loop(ctx)}
	submitCommand(ctx, t, h.l, command...)
	s.Until(ctx, mark, func() bool {
		h.dir = filepath.Dir(s.Find(mark, func(string) bool { return true }))
		return h.dir != "."
	})
	return h
}

func (h *waitingJob) release(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
}

const reporting = `
import os, signalbox, time
with signalbox.init() as run:
    run.starting()
    run.running()
    run.log({"mine/value": 1.5}, step=1)
    run.flush()
    work = os.environ["SERVICE_JOB_WORKDIR"]
    open(os.path.join(work, "reporting"), "w").close()
    while not os.path.exists(os.path.join(work, "go")):
        time.sleep(0.02)
    run.log({"mine/value": 2.5}, step=2)
    print("the end")
`

const ending = `echo one; cd "$SERVICE_JOB_WORKDIR"; : > ending; until [ -e go ]; do sleep 0.02; done; echo two; : > over`

// TestRestart_atAnotherAddress kills signalboxd and starts it on another port. Meanwhile one command prints
// lines, a second one ends, and a third one sends reports. All must succeed at their first attempt without
// losing a log line or a report. If signalboxd is then started with port 0, it must use its previous address again.
func TestRestart_atAnotherAddress(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	s := testenv.Single(t, testenv.Options{})
	c := s.Count(ctx, s.Loop(ctx))
	c.AwaitMore(ctx, 2)
	reporter := startWaitingJob(ctx, t, s, "reporting", "python", "-c", reporting)
	ends := startWaitingJob(ctx, t, s, "ending", "sh", "-c", ending)

	former := s.URL
	testenv.KillAll(t, s)
	ends.release(t)
	s.Until(ctx, "the command has ended", func() bool { return s.Find("over", func(string) bool { return true }) != "" })
	s.Listen(s.FreeAddress())
	s.StartSingle()
	require.NotEqual(t, former, s.URL)

	c.Follow(s.Loop(ctx))
	c.AwaitMore(ctx, 3)
	s.Until(ctx, "the jobs know the new address", func() bool { return knowAddress(t, s) })
	reporter.release(t)
	for name, h := range map[string]struct {
		*waitingJob
		log string
	}{"ended": {ends, "one\ntwo\n"}, "reporter": {reporter, "the end\n"}} {
		h.l.Client = s.Loop(ctx).Client
		e := awaitEnd(ctx, t, s, h.l)
		require.Equal(t, "succeeded", e.State, name+": "+e.Message)
		require.Len(t, e.attempts, 1, name)
		require.Equal(t, h.log, e.log, name)
	}
	requireReports(ctx, t, reporter.l)
	c.Stop(ctx)
	c.End(ctx)

	last := s.URL
	testenv.KillAll(t, s)
	s.Listen("127.0.0.1:0")
	s.StartSingle()
	require.Equal(t, last, s.URL)
	require.NoError(t, client.New(s.URL, nil).Get(ctx, "/api/version", nil, nil))
}

// knowAddress reports whether the agent has given its jobs the current address of signalboxd.
func knowAddress(t *testing.T, s *testenv.Installation) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.AgentDir(), "works", "*", "live", "endpoint"))
	require.NoError(t, err)
	return len(files) > 0 && !slices.ContainsFunc(files, func(file string) bool {
		raw, err := os.ReadFile(file)
		return err == nil && !strings.HasPrefix(string(raw), s.URL)
	})
}

// requireReports requires that each value that the command reported, before or after the restart, is stored once.
func requireReports(ctx context.Context, t *testing.T, l *e2eflow.Loop) {
	t.Helper()
	var series []struct {
		Key    string `json:"key"`
		Points []struct {
			Step  int     `json:"step"`
			Value float64 `json:"value"`
		} `json:"points"`
	}
	require.NoError(t, l.Client.Get(ctx, "/api/runs/"+l.Job.RunID+"/metrics", nil, &series))
	require.Len(t, series, 1)
	require.Len(t, series[0].Points, 2)
	require.InDelta(t, 1.5, series[0].Points[0].Value, 0)
	require.InDelta(t, 2.5, series[0].Points[1].Value, 0)
	var job struct {
		Warnings []string `json:"warnings"`
	}
	require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID, nil, &job))
	require.Empty(t, job.Warnings, "the end of the run must be reported")
}

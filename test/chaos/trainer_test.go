package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// steps is a training that reports a point and prints a line for each step. It has three arguments: the number of
// steps, the pause after each step in seconds, and `leaves` or another word. After `leaves`, the training waits for
// the file `go` before its last ten steps, and then exits without delivering the reports of these steps.
const steps = `
import os, sys, time, signalbox
run = signalbox.init()
run.starting()
run.running()
last, pause, leaves = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "leaves"
for step in range(1, last + 1):
    while leaves and step == last - 9 and not os.path.exists("go"):
        time.sleep(0.02)
    run.log({"step": step}, step=step)
    os.write(1, f"step {step}\n".encode())  # unbuffered, because the reporter may write to the same log
    time.sleep(pause)
if leaves:
    os._exit(0)
run.succeeded()
run.finish()
`

// trainer is a job that runs the training `steps`.
type trainer struct {
	t    *testing.T
	s    *testenv.Installation
	l    *e2eflow.Loop
	last int
}

func newTrainer(ctx context.Context, t *testing.T, s *testenv.Installation, last int, pause, end string) *trainer {
	t.Helper()
	return startTrainer(ctx, t, s, s.Loop(ctx), last, pause, end)
}

// startTrainer is like newTrainer, with a loop that is signed in and has no other job.
func startTrainer(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop, last int, pause, end string) *trainer {
	t.Helper()
	r := &trainer{t: t, s: s, l: l, last: last}
	require.NoError(t, r.l.Submit(ctx, testenv.Command(ctx, s, r.l, "python", "-c", steps, strconv.Itoa(last), pause, end)))
	return r
}

// folder waits until the training has printed its first step, and returns the folder of its work.
func (r *trainer) folder(ctx context.Context) (dir string) {
	r.t.Helper()
	r.s.Until(ctx, "the training has printed a step", func() bool {
		dir = work(r.t, r.s, r.l.Job.ID)
		raw, err := os.ReadFile(filepath.Join(dir, "log"))
		return dir != "" && err == nil && strings.Contains(string(raw), "step 1\n")
	})
	return dir
}

// requireComplete waits until the training has succeeded. It requires that the training needed only one attempt, and
// that each step and each line is stored once.
func (r *trainer) requireComplete(ctx context.Context) {
	r.t.Helper()
	require.NoError(r.t, r.l.AwaitEnd(ctx), r.s.Tail())
	require.Equal(r.t, 1, r.l.Job.Attempt, "the first attempt must succeed")
	var series []struct {
		Points []struct{ Step, Value int }
	}
	r.s.Until(ctx, "the points can be read", func() bool {
		return r.l.Client.Get(ctx, "/api/runs/"+r.l.Job.RunID+"/metrics?keys=step", nil, &series) == nil
	})
	require.Len(r.t, series, 1)
	require.Len(r.t, series[0].Points, r.last)
	for i, p := range series[0].Points {
		require.Equal(r.t, []int{i + 1, i + 1}, []int{p.Step, p.Value})
	}
	var lines []string
	require.NoError(r.t, r.l.FollowLogs(ctx, func(line e2eflow.LogLine) {
		if !strings.HasPrefix(line.Text, "signalbox: ") {
			lines = append(lines, line.Text)
		}
	}))
	require.Len(r.t, lines, r.last)
	for i, line := range lines {
		require.Equal(r.t, fmt.Sprint("step ", i+1), line)
	}
}

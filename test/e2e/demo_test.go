package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// demoRun holds what the demo printed.
type demoRun struct {
	run, question, answer, untrained, times string
}

// TestDemoOnce runs `make demo DEMO=once` with an empty folder and its own port. The demo builds the environment,
// trains on two-digit sums with the normal settings of the recipe and uses a real engine. The test then compares the
// output of the demo with the data that the installation stored.
func TestDemoOnce(t *testing.T) {
	ctx := t.Context()
	dir := testenv.Folder(t)
	demo := runDemo(ctx, t, dir)
	t.Log(demo.times)
	require.Empty(t, testenv.LeftProcesses(dir), "the demo must leave no process")

	d := start(t, dir, []string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD_FILE=" + filepath.Join(dir, "data", "demo-password")})
	d.awaitReady(t, dir)
	l := signInToDemo(ctx, t, dir, d.ready.Address)
	l.Job.RunID = demo.run
	rounds, err := l.Rounds(ctx)
	require.NoError(t, err)
	first, last := rounds[0], rounds[len(rounds)-1]
	require.Zero(t, first.Step)
	require.True(t, first.Complete && last.Complete)
	require.LessOrEqual(t, *first.AvgReward, 0.2, "the reward before training must be low")
	require.GreaterOrEqual(t, *last.AvgReward, 0.9, "the reward after training must be high")

	samples, err := l.Samples(ctx)
	require.NoError(t, err)
	require.Len(t, samples, 800, "a fifth of the 4000 pairs must be held out")
	held := map[string]e2eflow.Sample{}
	for _, s := range samples {
		held[s.Question] = s
	}
	require.Len(t, held, len(samples))
	require.Contains(t, held, demo.question, "the question must be held out of the training")
	require.Equal(t, correctSum(t, demo.question), demo.answer)
	require.Equal(t, demo.answer, held[demo.question].Answer, "the answer must be that of the last validation round")
	require.NotEqual(t, demo.answer, demo.untrained)
}

// runDemo runs the demo, which must succeed, and returns what it printed.
func runDemo(ctx context.Context, t *testing.T, dir string) demoRun {
	t.Helper()
	cmd := exec.CommandContext(ctx, testenv.Bin(t, "signalbox"), "demo", "--data", filepath.Join(dir, "data"), "--listen", freeAddress(t), "--once")
	// If the test ends early, interrupt the demo so that it also stops its server.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, time.Minute
	cmd.Env = append(os.Environ(), "PATH="+testenv.PathWithUV(t))
	cmd.Dir = testenv.Root(t) // the server finds Postgres in the cache of its working folder
	t.Cleanup(func() {
		for _, pid := range testenv.LeftProcesses(dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(t, cmd.Run(), "%s%s", &out, &log)
	find := func(pattern string) []string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(out.String())
		require.NotNil(t, m, "%s\n%s", pattern, &out)
		return m
	}
	chat := find(`chat +question (\S+)  answer (\S+)  \(held out of training; correct: (\S+)\)`)
	require.Equal(t, chat[3], chat[2])
	untrained, err := strconv.Unquote(find(`contrast +the untrained weights in the same engine answer (".*")`)[1])
	require.NoError(t, err)
	return demoRun{
		run: find(`admitted, run (run_\w+)`)[1], question: chat[1], answer: chat[2], untrained: untrained,
		times: find(`times +(first metric .+ s \(target 30\.0 s\), first chat .+ s \(target 120\.0 s\))`)[1],
	}
}

// signInToDemo returns a Loop that is signed in to the installation in the folder of the demo.
func signInToDemo(ctx context.Context, t *testing.T, dir, address string) *e2eflow.Loop {
	t.Helper()
	password, err := os.ReadFile(filepath.Join(dir, "data", "demo-password"))
	require.NoError(t, err)
	l := &e2eflow.Loop{Client: client.New(address, nil), Clock: clock.Real(), Name: "reader", Timeout: testenv.StageTimeout}
	require.NoError(t, l.Login(ctx, "admin", secret.New(strings.TrimSpace(string(password)))))
	return l
}

// correctSum returns the correct sum for a question such as `07+15?`.
func correctSum(t *testing.T, question string) string {
	t.Helper()
	m := regexp.MustCompile(`^(\d\d)\+(\d\d)\?$`).FindStringSubmatch(question)
	require.NotNil(t, m, question)
	x, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	y, err := strconv.Atoi(m[2])
	require.NoError(t, err)
	return strconv.Itoa(x + y)
}

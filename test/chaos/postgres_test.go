package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/fixtures"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// kills returns how often the database server is killed: CHAOS_KILLS times, 40 times with TEST_LONG, otherwise 3 times.
func kills(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("CHAOS_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "CHAOS_KILLS must be a number")
		return n
	}
	if draw.Whole() {
		return 40
	}
	return 3
}

// TestSingleProcess_killedPostgres kills the Postgres server that signalboxd runs, while runs report metrics. signalboxd
// must start it again, the works must continue at their first attempt, the engine must not be started again, and no
// acknowledged report may be lost.
func TestSingleProcess_killedPostgres(t *testing.T) {
	n := kills(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout+time.Duration(n)*20*time.Second)
	defer cancel()
	s := testenv.Single(t, testenv.Options{})
	l := s.Loop(ctx)
	requireSameEngine := startEngine(ctx, t, s)
	counter := s.Count(ctx, l)
	require.NoError(t, l.Submit(ctx, testenv.Command(ctx, s, l, "sleep", "3600")))
	pid := s.Processes["signalboxd"].PID()
	r := newReporters(ctx, t, s, l)
	stop := r.start(ctx, 4)
	for range n {
		r.awaitMore(ctx, 20)
		killPostmaster(ctx, t, s)
	}
	r.awaitMore(ctx, 20)
	stop()
	counter.AwaitMore(ctx, 3)
	counter.Stop(ctx)
	counter.End(ctx)
	requireSameEngine()
	require.Equal(t, pid, s.Processes["signalboxd"].PID())
	require.NoError(t, syscall.Kill(pid, 0), "signalboxd must outlive its database")
	var job struct {
		Attempt int
		State   string
	}
	require.NoError(t, l.Client.Get(ctx, "/api/jobs/"+l.Job.ID, nil, &job))
	require.Equal(t, 1, job.Attempt, job.State)
	r.requireStored(ctx)
}

// killPostmaster kills the Postgres server that signalboxd runs, and waits until another one runs.
func killPostmaster(ctx context.Context, t *testing.T, s *testenv.Installation) {
	t.Helper()
	killed := postmaster(t, s)
	require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
	s.Until(ctx, "another server runs", func() bool { return postmaster(t, s) != killed })
}

// servingScenario serves a model with a small engine, without a training.
func servingScenario(ctx context.Context, t *testing.T, s *testenv.Installation) *scenario {
	t.Helper()
	sc := &scenario{T: t, s: s, l: s.Loop(ctx)}
	version, err := sc.l.Register(ctx, testenv.ExportModel(ctx, s, sc.l))
	require.NoError(t, err)
	require.NoError(t, sc.l.Deploy(ctx, sc.l.Name, version, map[string]any{"engine": "command", "command": fixtures.Engine()}))
	require.NoError(t, sc.l.AwaitReady(ctx), s.Tail())
	require.NoError(t, sc.l.Promote(ctx))
	require.NoError(t, sc.l.MakeToken(ctx, "chaos"))
	return sc
}

// startEngine serves a model. The returned function requires that the same engine process still serves the model.
func startEngine(ctx context.Context, t *testing.T, s *testenv.Installation) (requireSame func()) {
	t.Helper()
	sc := servingScenario(ctx, t, s)
	pid := sc.enginePID(ctx)
	return func() {
		text, err := sc.l.Chat(ctx, "hello")
		require.NoError(t, err, s.Tail())
		require.Equal(t, "x", text)
		require.Equal(t, pid, sc.enginePID(ctx), "the engine must not be started again")
	}
}

// postmaster returns the process id of the Postgres server that signalboxd runs. If the server is just starting,
// postmaster waits until the server has written its id to a file.
func postmaster(t *testing.T, s *testenv.Installation) int {
	t.Helper()
	pid := 0
	s.Until(t.Context(), "the server has written its process id", func() bool {
		raw, _ := os.ReadFile(filepath.Join(s.Dir, "data", "postgres", "data", "postmaster.pid"))
		first, _, _ := strings.Cut(string(raw), "\n")
		pid, _ = strconv.Atoi(first)
		return pid != 0
	})
	return pid
}

// reporters report metrics to the run of one job and count the acknowledged reports.
type reporters struct {
	t     *testing.T
	s     *testenv.Installation
	l     *e2eflow.Loop
	token secret.String
	acked atomic.Int64

	mu   sync.Mutex
	last map[string]int // the last acknowledged step of each reporter
}

// newReporters waits until the job has its ingest token and reads the token from the agent's folder.
func newReporters(ctx context.Context, t *testing.T, s *testenv.Installation, l *e2eflow.Loop) *reporters {
	t.Helper()
	r := &reporters{t: t, s: s, l: l, last: map[string]int{}}
	s.Until(ctx, "the job has an ingest token", func() bool {
		var assignment struct{ Token string }
		raw, err := os.ReadFile(filepath.Join(work(t, s, l.Job.ID), "assignment.json"))
		if err != nil || json.Unmarshal(raw, &assignment) != nil {
			return false
		}
		r.token = secret.New(assignment.Token)
		return assignment.Token != ""
	})
	return r
}

// start starts n reporters. The function stop ends them; a report that is not acknowledged by then does not count.
func (r *reporters) start(ctx context.Context, n int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() { r.report(ctx, fmt.Sprint("reporter", i)) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// report sends one point after another. It repeats each report until the report is acknowledged.
func (r *reporters) report(ctx context.Context, name string) {
	c := client.New(r.s.URL, nil).With(r.token)
	for step := 1; ; step++ {
		body := map[string]any{"run_id": r.l.Job.RunID, "points": []any{
			map[string]any{"key": name, "step": step, "value": step, "ts": "2026-11-21T03:00:00+00:00"},
		}}
		for {
			a, err := c.WithIdempotencyKey(name+":"+strconv.Itoa(step)).Call(ctx, http.MethodPost, "/api/ingest/metrics", body)
			if ctx.Err() != nil {
				return
			}
			if err == nil && a.Status == http.StatusOK {
				break
			}
		}
		r.mu.Lock()
		r.last[name] = step
		r.mu.Unlock()
		r.acked.Add(1)
	}
}

// awaitMore waits until n more reports are acknowledged.
func (r *reporters) awaitMore(ctx context.Context, n int64) {
	r.t.Helper()
	want := r.acked.Load() + n
	r.s.Until(ctx, "more reports are acknowledged", func() bool { return r.acked.Load() >= want })
}

// requireStored requires that each acknowledged point is stored once. One further point of each reporter may be stored,
// because its acknowledgement may have been lost.
func (r *reporters) requireStored(ctx context.Context) {
	r.t.Helper()
	var series []struct {
		Key    string
		Points []struct{ Step int }
	}
	require.NoError(r.t, r.l.Client.Get(ctx, "/api/runs/"+r.l.Job.RunID+"/metrics", nil, &series))
	require.Len(r.t, series, len(r.last))
	for _, one := range series {
		for i, p := range one.Points {
			require.Equal(r.t, i+1, p.Step, "%s: each point must be stored once", one.Key)
		}
		require.GreaterOrEqual(r.t, len(one.Points), r.last[one.Key], "%s: an acknowledged report is lost", one.Key)
		require.LessOrEqual(r.t, len(one.Points), r.last[one.Key]+1, one.Key)
	}
	r.t.Logf("%d acknowledged reports, none lost", r.acked.Load())
}

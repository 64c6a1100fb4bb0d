package slurm_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/agent/slurm"
	"github.com/signalbox-dev/signalbox/test/slurmtest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// cutOff are commands whose agent is killed at the first sbatch: before it, or after Slurm has accepted the job and
// before the agent knows its id.
type cutOff struct {
	slurm.Commands

	before bool
	// armed is true until the agent is killed. reached receives a value at that time.
	armed   *atomic.Bool
	reached chan struct{}
}

// Run implements slurm.Commands.
func (c cutOff) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	if name != "sbatch" || !c.armed.CompareAndSwap(true, false) {
		return c.Commands.Run(ctx, name, args...)
	}
	if !c.before {
		if _, err := c.Commands.Run(ctx, name, args...); err != nil {
			return nil, err
		}
	}
	c.reached <- struct{}{}
	<-ctx.Done() // the agent is killed
	return nil, ctx.Err()
}

// An agent that is killed before or after sbatch, and before it has recorded the job, is followed by one that runs the
// attempt exactly once.
func TestAgentKilledAtSubmission(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, slurmtest.Config{Nodes: 1})
			armed, reached := &atomic.Bool{}, make(chan struct{}, 1)
			armed.Store(true)
			b.commands = func(c slurm.Commands) slurm.Commands { return cutOff{c, before, armed, reached} }
			b.reopen()
			starts, goOn := filepath.Join(t.TempDir(), "starts"), filepath.Join(t.TempDir(), "go")
			w := b.attempt("wrk_a", "echo x >> "+starts+"; while [ ! -e "+goOn+" ]; do sleep 0.05; done; exit 5", 1)
			b.apply(w)
			select {
			case <-reached:
			case <-time.After(timeout):
				t.Fatal("the attempt was not submitted")
			}
			b.reopen()
			b.reach(w.Key, executor.PhaseRunning)
			require.NoError(t, os.WriteFile(goOn, nil, 0o600))
			require.Equal(t, executor.Exit{Code: 5}, b.exit(w.Key))
			require.Equal(t, []string{"x"}, b.lines(starts))
			require.Len(t, b.cluster.Jobs(t.Context()), 1)
		})
	}
}

// A job that Slurm holds is found by its comment after the agent was killed before it has recorded the job.
func TestHeldJobOfLostSubmission(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1, GPUs: 1})
	first, second := b.attempt("wrk_a", "sleep 300", 1), b.attempt("wrk_b", "true", 1)
	first.Attempt.Batch.Parts[0].GPUsPerNode, second.Attempt.Batch.Parts[0].GPUsPerNode = 1, 1
	b.apply(first)
	b.reach(first.Key, executor.PhaseRunning)
	armed, reached := &atomic.Bool{}, make(chan struct{}, 1)
	armed.Store(true)
	b.commands = func(c slurm.Commands) slurm.Commands { return cutOff{c, false, armed, reached} }
	b.reopen()
	b.apply(first, second)
	select {
	case <-reached:
	case <-time.After(timeout):
		t.Fatal("the attempt was not submitted")
	}
	b.reopen()
	b.until("the second attempt waits for resources", func() bool { o := b.observe(second.Key); return o.Batch != nil && o.Batch.Reason == "Resources" })
	require.Len(t, b.cluster.Jobs(t.Context()), 2)
	b.apply(second)
	require.Equal(t, executor.Exit{}, b.exit(second.Key))
	require.Len(t, b.cluster.Jobs(t.Context()), 2, "the attempt must not be submitted again")
}

// If the job of a lost submission appears after the attempt was submitted again, only one of the two jobs runs it, and
// the other one is cancelled.
func TestLateJobOfLostSubmission(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1})
	armed, reached := &atomic.Bool{}, make(chan struct{}, 1)
	armed.Store(true)
	b.commands = func(c slurm.Commands) slurm.Commands { return &late{Commands: c, armed: armed, reached: reached} }
	b.reopen()
	starts, goOn := filepath.Join(t.TempDir(), "starts"), filepath.Join(t.TempDir(), "go")
	w := b.attempt("wrk_a", "echo x >> "+starts+"; while [ ! -e "+goOn+" ]; do sleep 0.05; done", 1)
	b.apply(w)
	b.reach(w.Key, executor.PhaseRunning)
	select {
	case <-reached: // the first sbatch has arrived at last
	case <-time.After(timeout):
		t.Fatal("the late submission did not arrive")
	}
	b.until("only one job is left", func() bool { return len(b.cluster.Jobs(t.Context())) == 2 && len(b.jobs()) == 1 })
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	require.Equal(t, executor.Exit{}, b.exit(w.Key))
	require.Equal(t, []string{"x"}, b.lines(starts))
}

// late are commands whose first sbatch reports a timeout and reaches Slurm only when the second one has.
type late struct {
	slurm.Commands

	armed   *atomic.Bool
	first   []string
	reached chan struct{}
}

// Run implements slurm.Commands.
func (c *late) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	if name != "sbatch" {
		return c.Commands.Run(ctx, name, args...)
	}
	if c.armed.CompareAndSwap(true, false) {
		c.first = args
		return nil, slurm.ErrTimeout
	}
	out, err := c.Commands.Run(ctx, name, args...)
	if err == nil && c.first != nil {
		_, err = c.Commands.Run(ctx, name, c.first...)
		c.reached <- struct{}{}
	}
	return out, err
}

// A job that its agent does not want any more is cancelled, even if the agent was killed before it could do so.
func TestOrphanIsCancelled(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1})
	w := b.attempt("wrk_a", "sleep 300", 1)
	b.apply(w)
	b.reach(w.Key, executor.PhaseRunning)
	b.close()
	require.NoError(t, os.RemoveAll(filepath.Join(b.dir, "works", w.String())))
	b.open()
	b.until("the job has ended", func() bool { return len(b.jobs()) == 0 })
}

// Slurm's reason is reported while it holds the attempt. A held attempt can be stopped.
func TestHeldAttempt(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1, GPUs: 1})
	first, second := b.attempt("wrk_a", "sleep 300", 1), b.attempt("wrk_b", "true", 1)
	first.Attempt.Batch.Parts[0].GPUsPerNode, second.Attempt.Batch.Parts[0].GPUsPerNode = 1, 1
	second.Attempt.Grace = time.Hour // a held attempt has nothing to save
	b.apply(first)
	b.reach(first.Key, executor.PhaseRunning)
	b.apply(first, second)
	b.until("the second attempt waits for resources", func() bool {
		o := b.observe(second.Key)
		return o.Phase == executor.PhasePending && o.Batch != nil && o.Batch.ID != "" && o.Batch.Reason == "Resources"
	})
	b.reopen() // adopts it while it is held
	b.until("the second attempt still waits", func() bool { o := b.observe(second.Key); return o.Batch != nil && o.Batch.Reason == "Resources" })
	second.Desired = executor.DesiredStopped
	b.apply(first, second)
	exit := b.exit(second.Key)
	require.Equal(t, executor.ReasonStopped, exit.Reason)
	require.True(t, b.observe(second.Key).RunningAt.IsZero())
	require.Len(t, b.jobs(), 1)
}

// An attempt that the control plane gives up while Slurm holds it and the agent is away does not run.
func TestHeldAttempt_givenUp(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1, GPUs: 1})
	seen := filepath.Join(t.TempDir(), "seen")
	first, second := b.attempt("wrk_a", "sleep 300", 1), b.attempt("wrk_b", "touch "+seen, 1)
	first.Attempt.Batch.Parts[0].GPUsPerNode, second.Attempt.Batch.Parts[0].GPUsPerNode = 1, 1
	b.apply(first)
	b.reach(first.Key, executor.PhaseRunning)
	b.apply(first, second)
	b.until("the second attempt waits", func() bool { o := b.observe(second.Key); return o.Batch != nil && o.Batch.Reason == "Resources" })
	b.close()
	b.plane.GiveUp(first.Key) // ends it, because it renews its lease
	b.plane.GiveUp(second.Key)
	b.until("both jobs have ended", func() bool { return len(b.jobs()) == 0 })
	require.NoFileExists(t, seen)
	b.open()
	b.apply(first, second)
	for _, w := range []executor.Work{first, second} {
		require.Equal(t, executor.ReasonStopped, b.exit(w.Key).Reason)
	}
	require.NoFileExists(t, seen)
}

// While the control plane does not respond, no rank starts. Such an attempt can be stopped, and it has never run.
func TestUnconfirmedAttempt_stopped(t *testing.T) {
	t.Parallel()
	b := newHarness(t, slurmtest.Config{Nodes: 1})
	var requests atomic.Int32
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/cluster/leases/renew" {
			requests.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(plane.Close)
	seen := filepath.Join(t.TempDir(), "seen")
	w := b.attempt("wrk_a", "touch "+seen, 1)
	w.Attempt.IngestEndpoint = plane.URL + "/api/ingest"
	b.apply(w)
	b.until("the rank waits for the control plane", func() bool { return requests.Load() > 1 })
	w.Desired = executor.DesiredStopped
	b.apply(w)
	exit := b.exit(w.Key)
	require.Equal(t, executor.ReasonStopped, exit.Reason)
	require.True(t, b.observe(w.Key).RunningAt.IsZero(), "the command has never run")
	require.NoFileExists(t, seen)
	dir := host.RankDir(filepath.Join(b.dir, "works", w.String(), "run"), 0)
	var recorded shim.Exit
	require.NoError(t, shim.ReadExit(dir, &recorded), "the rank must record its end, so that the agent need not wait")
	require.True(t, recorded.Stopped)
}

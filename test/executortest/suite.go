package executortest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Open creates an executor that stores its state in dir. If Open is called again after Close, the new executor must
// continue from that state.
type Open func(t *testing.T, dir string, p *ControlPlane) Opened

// Opened is a running executor.
type Opened struct {
	executor.Executor
	// Close ends the executor as if the agent had been killed. The processes of its works keep running.
	Close func()
	// Batch describes each attempt to the executor's batch system; nil for an executor of a host. An executor with a batch
	// system prepares attempts in the phase pending.
	Batch *executor.BatchSpec
	// Alive reports whether a process of a work exists and is not a zombie. If it is nil, the processes are those of this
	// machine.
	Alive func(pid int) bool
}

// Run runs the suite for executors.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, group := range []map[string]func(*harness){endings, stopping, adopting, desiring, preparing} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(newHarness(t, open))
			})
		}
	}
}

// harness holds the executor and the control plane of one test.
type harness struct {
	*testing.T
	open  Open
	dir   string
	plane *ControlPlane
	x     Opened
}

func newHarness(t *testing.T, open Open) *harness {
	t.Helper()
	b := &harness{T: t, open: open, dir: t.TempDir(), plane: NewControlPlane(t)}
	b.x = open(t, b.dir, b.plane)
	t.Cleanup(func() {
		// No process may outlive the test.
		b.apply()
		b.until("all works are gone", func() bool { return len(b.x.Observed()) == 0 })
		b.x.Close()
	})
	return b
}

// reopen ends the executor as if the agent had been killed, calls the given function, and starts the next executor.
func (b *harness) reopen(meanwhile func()) {
	b.Helper()
	b.x.Close()
	meanwhile()
	b.x = b.open(b.T, b.dir, b.plane)
}

func (b *harness) apply(works ...executor.Work) {
	b.Helper()
	require.NoError(b, b.x.Apply(context.Background(), works))
}

const timeout = 3 * time.Minute

// until waits until the condition is true. It fails the test after the time limit.
func (b *harness) until(what string, condition func() bool) {
	b.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	// Check at intervals as well, because some conditions depend on files and processes.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-b.x.Changes():
		case <-tick.C:
		case <-deadline.C:
			b.Fatalf("timeout after %s waiting for: %s; observed: %s", timeout, what, describe(b.x.Observed()))
		}
	}
}

func describe(all []executor.Observation) string {
	var text strings.Builder
	for _, o := range all {
		_, _ = fmt.Fprintf(&text, "\n  %s %s %q exit %+v", o.Key, o.Phase, o.Detail, o.Exit)
	}
	return text.String()
}

func (b *harness) observe(key executor.Key) (executor.Observation, bool) {
	for _, o := range b.x.Observed() {
		if o.Key == key {
			return o, true
		}
	}
	return executor.Observation{}, false
}

// reach waits until the execution is in the given phase.
func (b *harness) reach(key executor.Key, phase executor.Phase) executor.Observation {
	b.Helper()
	var o executor.Observation
	b.until(key.String()+" "+string(phase), func() bool {
		var known bool
		o, known = b.observe(key)
		return known && o.Phase == phase
	})
	return o
}

func (b *harness) exit(key executor.Key) executor.Exit {
	b.Helper()
	o := b.reach(key, executor.PhaseExited)
	require.NotNil(b, o.Exit)
	return *o.Exit
}

// shell returns an attempt that runs a script.
func (b *harness) shell(id, script string) executor.Work {
	w := executor.Work{
		Key: executor.Key{WorkID: id, Generation: 1, Fence: 1}, Kind: executor.KindAttempt, Desired: executor.DesiredRunning,
		Attempt: &executor.AttemptSpec{
			JobID: "job_1", RunID: "run_1", Attempt: 1, Command: []string{"/bin/sh", "-c", script}, Seed: 7,
			IngestEndpoint: b.plane.Endpoint(), Grace: 5 * time.Second, Hparams: []byte(`{"train.lr": 0.1}`),
		},
	}
	if b.x.Batch != nil {
		batch := *b.x.Batch
		batch.Parts = slices.Clone(batch.Parts)
		w.Attempt.Batch = &batch
	}
	return w
}

// prepares waits until the inputs of the execution are prepared.
func (b *harness) prepares(key executor.Key) {
	b.Helper()
	b.until(key.String()+" is prepared", func() bool {
		o, known := b.observe(key)
		held := b.x.Batch != nil && o.Phase == executor.PhasePending && o.Detail != ""
		return known && (o.Phase == executor.PhasePreparing || held)
	})
}

// alive reports whether a process of a work exists and is not a zombie.
func (b *harness) alive(pid int) bool {
	if b.x.Alive != nil {
		return b.x.Alive(pid)
	}
	return alive(pid)
}

func withDesired(w executor.Work, d executor.Desired) executor.Work {
	w.Desired = d
	return w
}

// Tar returns a tar archive of the files.
func Tar(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func itoa(n int) string { return strconv.Itoa(n) }

func writerOf(key executor.Key) string {
	return fmt.Sprintf("agent-%s-%d-%d", key.WorkID, key.Generation, key.Fence)
}

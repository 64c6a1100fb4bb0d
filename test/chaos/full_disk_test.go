package chaos

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// mountSmall mounts a file system of 400 MB. It returns false if the user has no permission to mount.
func mountSmall(t *testing.T, dir string) bool {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=400m,mode=755")
	if errors.Is(err, syscall.EPERM) {
		t.Log("NOT TESTED: only root can mount the small file system that the test fills")
		return false
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return true
}

// fill writes to a file until the file system has no free byte.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for _, size := range []int{1 << 20, 4096, 1} {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		err = nil
	}
}

// diskHarness is an installation on a small disk with a job that keeps writing to a file.
type diskHarness struct {
	*testenv.Installation

	loop *e2eflow.Loop
}

// grown returns the size of the job's file.
func (h *diskHarness) grown() (size int64) {
	h.T.Helper()
	if info, err := os.Stat(h.Find("grows", func(string) bool { return true })); err == nil {
		size = info.Size()
	}
	return size
}

// reserve returns the allocated size in bytes of the agent's reserve file, or 0 if the file does not exist.
func (h *diskHarness) reserve() int64 {
	h.T.Helper()
	var st syscall.Stat_t
	if syscall.Stat(filepath.Join(h.AgentDir(), "reserve"), &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// requireFrozen requires that the job's file does not grow.
func (h *diskHarness) requireFrozen() {
	h.T.Helper()
	before := h.grown()
	require.Never(h.T, func() bool { return h.grown() != before }, time.Second, 50*time.Millisecond, "the job is not frozen")
}

// awaitFrozen waits until the job's file has not grown for a second. The reserve may be released a moment before the job
// is frozen.
func (h *diskHarness) awaitFrozen(ctx context.Context) {
	h.T.Helper()
	last, since := h.grown(), clock.Real().Now()
	h.Until(ctx, "the job is frozen", func() bool {
		if size := h.grown(); size != last {
			last, since = size, clock.Real().Now()
		}
		return clock.Real().Now().Sub(since) > time.Second
	})
}

func (h *diskHarness) status(ctx context.Context, method, path string) int {
	out, err := h.loop.Client.Call(ctx, method, path, nil)
	if err != nil {
		return 0
	}
	return out.Status
}

const reserveBytes = 64 << 20

// TestSingleProcess_fullDisk fills the disk of the data folder to the last byte while runs report metrics and a job
// writes. The job must be frozen, but another job that hardly writes must continue. Reads, stop, delete, login and a
// restart must work, and no acknowledged report may be lost. After space has been freed, the frozen job must continue.
func TestSingleProcess_fullDisk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	dir := testenv.Folder(t)
	data := filepath.Join(dir, "data")
	if !mountSmall(t, data) {
		return
	}
	s := testenv.Single(t, testenv.Options{Dir: dir, Env: map[string]string{"SERVICE_AGENT_RESERVE_BYTES": "67108864"}})
	h := &diskHarness{Installation: s, loop: s.Loop(ctx)}
	s.Until(ctx, "the reserve is allocated", func() bool { return h.reserve() >= reserveBytes })
	require.NoError(t, h.loop.Submit(ctx, testenv.Command(ctx, s, h.loop, "sh", "-c", "while :; do head -c 20000 /dev/zero >> grows; sleep 0.05; done")))
	other := s.Loop(ctx)
	require.NoError(t, other.Submit(ctx, testenv.Command(ctx, s, other, "sleep", "600")))
	require.NoError(t, other.AwaitState(ctx, "running"))
	var fleet struct{ ID string }
	require.NoError(t, h.loop.Client.Post(ctx, "/api/fleets", map[string]any{"name": "spare", "kind": "agent", "pools": []string{"spare"}}, &fleet))
	r := newReporters(ctx, t, s, h.loop)
	stop := r.start(ctx, 2)
	r.awaitMore(ctx, 10)
	s.Until(ctx, "the job writes", func() bool { return h.grown() > 0 })
	idle := s.Count(ctx, s.Loop(ctx)) // a job that prints a number now and then, and hardly writes
	// The agent checks the disk every second, and freezes a work that started since the last check, because its new
	// folder counts as written. The counter prints ten lines a second.
	idle.AwaitMore(ctx, 30)

	// If signalboxd released the reserve before the disk is full, the filler would take the reserve, too.
	s.Processes["signalboxd"].Signal(syscall.SIGSTOP)
	fill(t, filepath.Join(data, "filler"))
	require.GreaterOrEqual(t, h.reserve(), int64(reserveBytes))
	s.Processes["signalboxd"].Signal(syscall.SIGCONT)
	s.Until(ctx, "the reserve is released", func() bool { return h.reserve() == 0 })
	h.awaitFrozen(ctx)
	idle.AwaitMore(ctx, 3)
	h.requireUsable(ctx, fleet.ID, other)
	h.requireFrozen()
	idle.AwaitMore(ctx, 3)

	s.Processes["signalboxd"].Signal(syscall.SIGTERM) // unlike SIGINT, it leaves the works running
	s.Until(ctx, "signalboxd has stopped although the disk is full", func() bool {
		select {
		case <-s.Processes["signalboxd"].Exited():
			return true
		default:
			return false
		}
	})
	s.StartSingle()
	s.Until(ctx, "signalboxd serves requests again although the disk is full", func() bool { return h.status(ctx, http.MethodGet, "/api/jobs") == http.StatusOK })
	h.requireFrozen()

	require.NoError(t, os.Remove(filepath.Join(data, "filler")))
	frozen := h.grown()
	s.Until(ctx, "the reserve is allocated again", func() bool { return h.reserve() >= reserveBytes })
	s.Until(ctx, "the job continues", func() bool { return h.grown() > frozen })
	r.awaitMore(ctx, 10)
	stop()
	r.requireStored(ctx)
	h.requireEvents(ctx, "job.frozen", "job.thawed")
	var job struct{ Attempt int }
	require.NoError(t, h.loop.Client.Get(ctx, "/api/jobs/"+h.loop.Job.ID, nil, &job))
	require.Equal(t, 1, job.Attempt)
	idle.Stop(ctx)
	idle.End(ctx)
}

// requireEvents waits until the job has an event of each of the given types.
func (h *diskHarness) requireEvents(ctx context.Context, types ...string) {
	h.T.Helper()
	h.Until(ctx, "the job has the expected events", func() bool {
		var events []struct{ Type string }
		if h.loop.Client.Get(ctx, "/api/jobs/"+h.loop.Job.ID+"/events?limit=500", nil, &events) != nil {
			return false
		}
		found := map[string]bool{}
		for _, e := range events {
			found[e.Type] = true
		}
		return !slices.ContainsFunc(types, func(one string) bool { return !found[one] })
	})
}

// requireUsable requires that reads, login, delete and stop work. It repeats the requests, because Postgres may be
// restarting.
func (h *diskHarness) requireUsable(ctx context.Context, fleet string, other *e2eflow.Loop) {
	h.T.Helper()
	h.Until(ctx, "reads work", func() bool { return h.status(ctx, http.MethodGet, "/api/jobs/"+h.loop.Job.ID) == http.StatusOK })
	h.Until(ctx, "login works", func() bool {
		return h.loop.Login(ctx, "admin", secret.New(h.Password.Reveal())) == nil
	})
	h.Until(ctx, "delete works", func() bool {
		got := h.status(ctx, http.MethodDelete, "/api/fleets/"+fleet)
		return got == http.StatusNoContent || got == http.StatusNotFound
	})
	h.Until(ctx, "stop works", func() bool {
		got := h.status(ctx, http.MethodPost, "/api/jobs/"+other.Job.ID+"/stop")
		return got == http.StatusOK || got == http.StatusAccepted || got == http.StatusConflict
	})
	require.NoError(h.T, other.AwaitState(ctx, "stopped"))
}

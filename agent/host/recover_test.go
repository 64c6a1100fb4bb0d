package host_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

// attempt is a work that runs a shell script. It has its own host executor.
type attempt struct {
	*testing.T
	dir   string
	plane *executortest.ControlPlane
	host  *host.Host
	stop  func()
	work  executor.Work
}

func newAttempt(t *testing.T, script string, change func(*host.Config)) *attempt {
	t.Helper()
	a := &attempt{T: t, dir: t.TempDir(), plane: executortest.NewControlPlane(t)}
	a.work = executor.Work{
		Key: executor.Key{WorkID: "wrk_a", Generation: 1, Fence: 1}, Kind: executor.KindAttempt, Desired: executor.DesiredRunning,
		Attempt: &executor.AttemptSpec{
			JobID: "job_1", RunID: "run_1", Command: []string{"/bin/sh", "-c", script}, IngestEndpoint: a.plane.Endpoint(), Grace: time.Second,
		},
	}
	a.host, a.stop = open(t, a.dir, a.plane, isolate(change))
	t.Cleanup(func() {
		require.NoError(t, a.host.Apply(t.Context(), nil))
		require.Eventually(t, func() bool { return len(a.host.Observed()) == 0 }, time.Minute, 10*time.Millisecond)
		a.stop()
	})
	return a
}

func (a *attempt) apply() {
	a.Helper()
	require.NoError(a, a.host.Apply(a.Context(), []executor.Work{a.work}))
}

func (a *attempt) reach(phase executor.Phase) executor.Observation {
	a.Helper()
	var o executor.Observation
	require.Eventually(a, func() bool {
		all := a.host.Observed()
		if len(all) == 1 {
			o = all[0]
		}
		return o.Phase == phase
	}, 3*time.Minute, 5*time.Millisecond, "phase %s not reached", phase) // an attempt may build an environment
	return o
}

func (a *attempt) path(name ...string) string {
	return filepath.Join(append([]string{a.dir, "works", a.work.Key.String()}, name...)...)
}

func TestLostShimIsReported(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "sleep 300", nil)
	a.apply()
	a.reach(executor.PhaseRunning)
	var running struct {
		Shim struct {
			PID int `json:"pid"`
		} `json:"shim"`
		Command struct {
			PID int `json:"pid"`
		} `json:"command"`
	}
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(a.path("run", "run.json"))
		return err == nil && json.Unmarshal(raw, &running) == nil && running.Command.PID != 0
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, syscall.Kill(running.Shim.PID, syscall.SIGKILL))
	exit := a.reach(executor.PhaseExited).Exit
	require.Equal(t, executor.ReasonLost, exit.Reason)
	require.Equal(t, -1, exit.Code)
	left, err := shim.Lookup(running.Command.PID)
	require.False(t, err == nil && left.Alive(), "the command must end with its shim")
}

func TestCollecting_timeoutWhileLogsRefused(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "echo x", func(c *host.Config) { c.CollectTimeout = 300 * time.Millisecond })
	a.plane.RefuseLogs(1 << 30)
	a.apply()
	o := a.reach(executor.PhaseExited)
	require.Equal(t, executor.Exit{}, *o.Exit)
	require.True(t, o.Uncollected)
	text, _ := a.plane.Logs(a.work.Key)
	require.Empty(t, text)
}

func TestCollecting_continuesAfterRestart(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "echo x", nil)
	a.plane.RefuseLogs(1 << 30)
	a.apply()
	before := a.reach(executor.PhaseCollecting)
	require.Equal(t, executor.Exit{}, *before.Exit)
	a.stop()
	a.plane.RefuseLogs(0)
	a.host, a.stop = open(t, a.dir, a.plane, isolate(nil))
	after := a.reach(executor.PhaseExited)
	require.Equal(t, before.ExitedAt, after.ExitedAt)
	require.False(t, after.Uncollected)
	text, sound := a.plane.Logs(a.work.Key)
	require.Equal(t, "x\n", text)
	require.True(t, sound)
}

func TestFetch_timeout(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "true", func(c *host.Config) { c.FetchTimeout = 300 * time.Millisecond })
	ref := a.plane.Put("p.tar", executortest.Tar(t, map[string]string{"x": "y"}))
	ref.Unpack = true
	a.plane.FailDownloads(ref, 1<<30)
	a.work.Attempt.Package = &ref
	a.apply()
	require.Equal(t, executor.ReasonFetch, a.reach(executor.PhaseExited).Exit.Reason)
	require.Positive(t, a.plane.Fetched(ref))
}

func TestNew_incompleteWorksRemoved(t *testing.T) {
	t.Parallel()
	dir, plane := t.TempDir(), executortest.NewControlPlane(t)
	for _, name := range []string{"wrk_half.1.1", ".removing-wrk_old.1.1"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "works", name, "package"), 0o700))
	}
	h, stop := open(t, dir, plane, nil)
	defer stop()
	require.Empty(t, h.Observed())
	entries, err := os.ReadDir(filepath.Join(dir, "works"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestNew_folderOfAnotherWorkRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "works", "wrk_b.1.1")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "assignment.json"), []byte(`{"work":{"work_id":"wrk_a"}}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "state.json"), []byte(`{}`), 0o600))
	_, err := host.New(host.Config{Data: dir, Exec: []string{"x"}}, host.Deps{HTTP: &http.Client{}})
	require.ErrorContains(t, err, "the assignment of another work")
}

func TestTokenFilesArePrivate(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "sleep 300", nil)
	a.apply()
	a.reach(executor.PhaseRunning)
	err := filepath.WalkDir(a.path(), func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		require.True(t, !strings.Contains(string(raw), "token-of-") || info.Mode().Perm() == 0o600, path)
		return nil
	})
	require.NoError(t, err)
	info, err := os.Stat(a.path())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestReporterIsImportable(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "", nil)
	a.work.Attempt.Command = []string{"python", "-c", "import signalbox, sys; print(signalbox.__name__, sys.prefix != sys.base_prefix)"}
	a.work.Attempt.Environment.SDK = true
	a.apply()
	require.Equal(t, executor.Exit{}, *a.reach(executor.PhaseExited).Exit)
	text, _ := a.plane.Logs(a.work.Key)
	require.Equal(t, "signalbox True\n", text)
}

package host_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// fakeIngest is a fake ingest service that records the request bodies of each route. While away is
// true, the service accepts only logs.
type fakeIngest struct {
	*httptest.Server
	mu     sync.Mutex
	away   bool
	bodies map[string][]string
}

func newFakeIngest(t *testing.T) *fakeIngest {
	t.Helper()
	d := &fakeIngest{bodies: map[string][]string{}}
	d.Server = httptest.NewServer(http.HandlerFunc(d.take))
	t.Cleanup(d.Close)
	return d
}

func (d *fakeIngest) take(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var body any
	route := strings.TrimPrefix(r.URL.Path, "/api/ingest/")
	if d.away && route != "logs" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if json.NewDecoder(r.Body).Decode(&body) == nil {
		raw, _ := json.Marshal(body)
		d.bodies[route] = append(d.bodies[route], string(raw))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

func (d *fakeIngest) received(route string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.bodies[route], "\n")
}

func (d *fakeIngest) setUnavailable(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// killedReporter is a training that reports a metric and is killed before the metric is delivered.
const killedReporter = `
import os, signalbox
run = signalbox.init()
run.log({"mine/value": 2.5}, step=7)
os.kill(os.getpid(), 9)
`

// startReporter starts an attempt whose process is killed while the ingest service is unavailable. Its reports
// therefore stay in the spool.
func startReporter(t *testing.T) (*attempt, *fakeIngest) {
	t.Helper()
	d := newFakeIngest(t)
	d.setUnavailable(true)
	a := newAttempt(t, "", nil)
	a.work.Attempt.Command = []string{"python", "-c", killedReporter}
	a.work.Attempt.Environment.SDK = true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	require.Equal(t, 9, a.reach(executor.PhaseCollecting).Exit.Signal)
	return a, d
}

func TestSpool_deliveredAfterKill(t *testing.T) {
	t.Parallel()
	a, d := startReporter(t)
	d.setUnavailable(false)
	exited := a.reach(executor.PhaseExited)
	require.Equal(t, 9, exited.Exit.Signal, "the delivery must not change the exit")
	require.False(t, exited.Uncollected)
	require.Contains(t, d.received("metrics"), `"value":2.5`)
	require.Contains(t, d.received("logs"), "1 of 1 report(s) delivered")
	left, err := os.ReadDir(a.folder("spool"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestSpool_deliveredToNewEndpointAfterRestart(t *testing.T) {
	t.Parallel()
	a, d := startReporter(t)
	a.stop()
	d.Close()
	next := newFakeIngest(t)
	a.host, a.stop = open(t, a.dir, a.plane, isolate(nil))
	a.work.Attempt.IngestEndpoint = next.URL + "/api/ingest"
	a.apply()
	a.reach(executor.PhaseExited)
	require.Equal(t, 1, strings.Count(next.received("metrics"), `"value":2.5`))
	require.Empty(t, d.received("metrics"))
}

func TestSpool_goneWorkSkipsDelivery(t *testing.T) {
	t.Parallel()
	a, d := startReporter(t)
	require.NoError(t, a.host.Apply(t.Context(), nil))
	require.Eventually(t, func() bool { return len(a.host.Observed()) == 0 }, time.Minute, 5*time.Millisecond)
	require.Empty(t, d.received("metrics"))
}

// The reports that are left must be delivered by the agent's reporter, not by a module of the same name that the work
// has created. Otherwise code of the work would still run after the work has released its GPUs and its quota.
func TestSpool_modulesOfWorkAreIgnored(t *testing.T) {
	t.Parallel()
	d := newFakeIngest(t)
	d.setUnavailable(true)
	a := newAttempt(t, "", nil)
	a.work.Attempt.Command = []string{"python", "-c", plantedModules + killedReporter}
	a.work.Attempt.Environment.SDK = true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	a.reach(executor.PhaseCollecting)
	d.setUnavailable(false)
	a.reach(executor.PhaseExited)
	require.Contains(t, d.received("logs"), "1 of 1 report(s) delivered")
	require.NotContains(t, d.received("logs"), "planted")
	// Not every Python environment ignores the user's folder of modules by default.
	start, err := shim.ReadStart(a.path("flush"))
	require.NoError(t, err)
	require.Equal(t, "-s", start.Args[1])
}

const plantedModules = `
import os, pathlib, site
work = pathlib.Path(os.environ["SERVICE_JOB_WORKDIR"])
for folder in (work, pathlib.Path(site.getusersitepackages())):
    for name in ("signalbox/__init__.py", "signalbox/__main__.py", "sitecustomize.py", "usercustomize.py", "argparse.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("print('planted')")
`

func TestSpool_deliveredDespiteManyFolders(t *testing.T) {
	t.Parallel()
	d := newFakeIngest(t)
	d.setUnavailable(true)
	a := newAttempt(t, "", nil)
	a.work.Attempt.Command = []string{"python", "-c", manyFolders + killedReporter}
	a.work.Attempt.Environment.SDK = true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	a.reach(executor.PhaseCollecting)
	d.setUnavailable(false)
	a.reach(executor.PhaseExited)
	require.Contains(t, d.received("metrics"), `"value":2.5`)
}

const manyFolders = `
import os
for n in range(2500):
    os.mkdir(os.path.join(os.environ["SERVICE_JOB_SPOOL_DIR"], f"folder-{n}"))
`

// The agent is restarted while the attempt runs, and cannot look up a name in its settings any more.
func TestSpool_deliveredDespiteFailedLookup(t *testing.T) {
	t.Parallel()
	d := newFakeIngest(t)
	d.setUnavailable(true)
	a := newAttempt(t, "", withPasta(t, nil))
	a.work.Attempt.Command = []string{"python", "-c", `
import signalbox, time
run = signalbox.init(); run.log({"mine/value": 2.5}, step=7); print("logged", flush=True); time.sleep(300)`}
	a.work.Attempt.Environment.SDK = true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	require.Eventually(t, func() bool { return strings.Contains(a.logText(), "logged\n") }, time.Minute, 10*time.Millisecond)
	a.stop()
	a.host, a.stop = open(t, a.dir, a.plane, isolate(withPasta(t, func(c *host.Config) { c.WorkAvoid = []string{"store.invalid"} })))
	require.True(t, a.shimOf().Command.Signal(syscall.SIGKILL))
	a.reach(executor.PhaseCollecting)
	d.setUnavailable(false)
	a.reach(executor.PhaseExited)
	require.Contains(t, d.received("metrics"), `"value":2.5`)
}

// A work that the watch over its disk space has ended must not lose its reports: its folders still contain too much while
// they are delivered.
func TestSpool_deliveredAfterWatch(t *testing.T) {
	t.Parallel()
	d := newFakeIngest(t)
	d.setUnavailable(true)
	a := newAttempt(t, "", func(c *host.Config) { c.Isolate, c.WorkDisk = false, host.MinDisk })
	a.work.Attempt.Command = []string{"python", "-c", watchedReporter}
	a.work.Attempt.Environment.SDK = true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	require.Contains(t, a.reach(executor.PhaseCollecting).Exit.Message, "bytes of disk space", a.logText())
	d.setUnavailable(false)
	a.reach(executor.PhaseExited)
	require.Contains(t, d.received("metrics"), `"value":2.5`, a.logText())
	start, err := shim.ReadStart(a.path("flush"))
	require.NoError(t, err)
	require.Empty(t, start.Disk, "the reporter must not be watched")
}

// watchedReporter reports a metric and then uses more disk space than a watched work may.
const watchedReporter = `
import os, signal, signalbox
run = signalbox.init()
run.log({"mine/value": 2.5}, step=7)
with open(os.path.join(os.environ["SERVICE_JOB_WORKDIR"], "large"), "wb", 0) as file:
    for _ in range(40):
        file.write(bytes(1 << 20))
signal.pause()
`

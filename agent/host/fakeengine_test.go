package host_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

// serveOpenAI is the source of a fake engine. Its first argument, the mode, selects how it fails.
const serveOpenAI = `
import http.server, json, os, sys
mode, host, port, key = sys.argv[1], sys.argv[2], int(sys.argv[3]), open(sys.argv[4]).read().strip()
print("engine begins", mode, flush=True)
if mode == "exit":
    print("cannot load the model", file=sys.stderr); sys.exit(3)
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def answer(self, status, body, kind="application/json"):
        self.send_response(status); self.send_header("Content-Type", kind); self.end_headers(); self.wfile.write(body.encode())
    def do_GET(self):
        names = {"other-name": ["else"], "no-list": []}.get(mode, ["default"])
        self.answer(200, json.dumps({"data": [{"id": n} for n in names]}))
    def do_POST(self):
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer " + key: return self.answer(401, "{}")
        if mode == "broken": return self.answer(500, '{"error": "out of cheese"}')
        text = "" if mode == "silent" else "x"
        if ask.get("stream"):
            if mode == "no-stream": return self.answer(200, "{}")
            return self.answer(200, 'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n', "text/event-stream")
        self.answer(200, json.dumps({"choices": [{"message": {"content": text}}]}))
http.server.ThreadingHTTPServer((host, port), Handler).serve_forever()
`

type fakeEngine struct {
	*testing.T
	dir   string
	plane *executortest.ControlPlane
	host  *host.Host
	stop  func()
	work  executor.Work
}

func newFakeEngine(t *testing.T, mode string) *fakeEngine {
	t.Helper()
	f := &fakeEngine{T: t, dir: t.TempDir(), plane: executortest.NewControlPlane(t)}
	program := f.plane.Put("engine.py", []byte(serveOpenAI))
	f.work = executor.Work{
		Key: executor.Key{WorkID: "wrk_fake", Generation: 1, Fence: 1}, Kind: executor.KindEngine, Desired: executor.DesiredRunning,
		Engine: &executor.EngineSpec{
			Driver: "command", Model: []executor.ObjectRef{program}, ServedNames: []string{"default"}, ProbeDeadline: time.Minute,
			Command: []string{"python", "{model}/engine.py", mode, "{host}", "{port}", "{api_key_file}"},
		},
	}
	f.open()
	t.Cleanup(func() {
		f.apply()
		f.until("all works are gone", func() bool { return len(f.host.Observed()) == 0 })
		f.stop()
	})
	return f
}

func (f *fakeEngine) open() {
	f.Helper()
	f.host, f.stop = open(f.T, f.dir, f.plane, isolate(withPasta(f.T, func(c *host.Config) { c.ProbeInterval = 100 * time.Millisecond })))
}

func (f *fakeEngine) apply(works ...executor.Work) {
	f.Helper()
	require.NoError(f, f.host.Apply(context.Background(), works))
}

func (f *fakeEngine) until(what string, condition func() bool) {
	f.Helper()
	require.Eventually(f, condition, time.Minute, 10*time.Millisecond, what)
}

func (f *fakeEngine) seen() (executor.Observation, executor.EngineReport) {
	for _, o := range f.host.Observed() {
		if o.Key == f.work.Key && o.Engine != nil {
			return o, *o.Engine
		}
	}
	return executor.Observation{}, executor.EngineReport{}
}

// ready waits until an engine is ready whose process differs from that of an earlier report.
func (f *fakeEngine) ready(before executor.EngineReport) executor.EngineReport {
	f.Helper()
	var r executor.EngineReport
	f.until("the engine is ready", func() bool { _, r = f.seen(); return r.Ready && r.PID != before.PID })
	return r
}

func (f *fakeEngine) failed() (executor.Exit, executor.EngineReport) {
	f.Helper()
	f.until("the engine has failed", func() bool { o, _ := f.seen(); return o.Phase == executor.PhaseExited })
	o, r := f.seen()
	require.False(f, r.Ready)
	require.Equal(f, executor.EngineFailed, r.Phase)
	return *o.Exit, r
}

// An engine gets no limit for memory from the machine: it may use what its own setting permits. Processes are limited for
// all works.
func TestEngine_limits(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.stop()
	const memory, own = 64 << 30, 3 << 30
	f.host, f.stop = open(t, f.dir, f.plane, isolate(withPasta(t, func(c *host.Config) { c.Memory = memory })))
	limits := func() boundary.Plan {
		r := f.ready(executor.EngineReport{})
		start, err := shim.ReadStart(filepath.Join(f.dir, "works", f.work.Key.String(), "starts", strconv.Itoa(r.Restarts)))
		require.NoError(t, err)
		return start.Limits
	}
	f.apply(f.work)
	got := limits()
	require.Zero(t, got.Data)
	require.NotContains(t, settingNames(got), "memory.max")
	require.NotContains(t, settingNames(got), "memory.limit_in_bytes")
	require.True(t, got.Processes > 0 || slices.Contains(settingNames(got), "pids.max"), "%v", got)
	f.work.Generation++
	f.work.Engine.Limits.MemoryBytes = own
	f.apply(f.work)
	got = limits()
	require.True(t, got.Data == own || slices.ContainsFunc(got.Settings, func(s boundary.Setting) bool { return s.Value == strconv.Itoa(own) }), "%v", got)
}

// settingNames returns the names of the files that the plan writes.
func settingNames(p boundary.Plan) (names []string) {
	for _, s := range p.Settings {
		names = append(names, filepath.Base(s.Path))
	}
	return names
}

func TestEngine_failedProbes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]struct {
		code  executor.Code
		words string
	}{
		"other-name": {executor.CodeModelNameMissing, "else"},
		"broken":     {executor.CodeGenerateFailed, "out of cheese"},
		"silent":     {executor.CodeGenerateFailed, "no token"},
		"no-stream":  {executor.CodeStreamFailed, "200"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t, mode)
			f.apply(f.work)
			exit, r := f.failed()
			require.Equal(t, want.code, r.Code)
			require.Contains(t, r.Message, want.words)
			require.Contains(t, r.LogExcerpt, "engine begins")
			require.Equal(t, executor.ReasonStart, exit.Reason)
			require.True(t, strings.HasPrefix(exit.Message, string(want.code)+": "), exit.Message)
			require.Zero(t, r.Restarts, "an engine that failed its probes must not be restarted")
		})
	}
}

func TestEngine_exitingIsStartedThreeTimes(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "exit")
	f.apply(f.work)
	exit, r := f.failed()
	require.Equal(t, executor.CodeEngineExited, r.Code)
	require.Equal(t, 3, exit.Code)
	require.Equal(t, 2, r.Restarts)
	require.Equal(t, 3, strings.Count(r.LogExcerpt, "cannot load the model"))
}

func TestEngine_noModelList(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "no-list")
	f.apply(f.work)
	require.Contains(t, string(f.ready(executor.EngineReport{}).Probes), `"model_list":false`)
}

func TestEngine_modelDigestMismatch(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.work.Engine.ModelDigest = "sha256:" + strings.Repeat("0", 64)
	f.apply(f.work)
	exit, r := f.failed()
	require.Equal(t, executor.CodeWeightsMismatch, r.Code)
	require.Equal(t, executor.ReasonFetch, exit.Reason)
}

func TestEngine_unknownDriver(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.work.Engine.Driver = "another"
	f.apply(f.work)
	f.until("the work has ended", func() bool {
		all := f.host.Observed()
		return len(all) == 1 && all[0].Exit != nil && strings.Contains(all[0].Exit.Message, `"another"`)
	})
}

func TestEngine_restartedAfterKill(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.apply(f.work)
	first := f.ready(executor.EngineReport{})
	before, _ := f.seen()
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGKILL))
	second := f.ready(first)
	after, _ := f.seen()
	require.True(t, after.RunningAt.After(first.ReadyAt), "RunningAt must be the start of the second process, but is %s", after.RunningAt)
	require.False(t, before.RunningAt.After(first.ReadyAt))
	require.Greater(t, second.Restarts, first.Restarts)
	require.True(t, second.ReadyAt.After(first.ReadyAt))
	require.NoDirExists(t, filepath.Join(f.dir, "works", f.work.Key.String(), "starts", "0"))
}

// The agent is restarted while the engine serves, and cannot look up a name in its settings any more.
func TestEngine_restartedDespiteFailedLookup(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.apply(f.work)
	first := f.ready(executor.EngineReport{})
	f.stop()
	f.host, f.stop = open(t, f.dir, f.plane, isolate(withPasta(t, func(c *host.Config) { c.WorkAvoid = []string{"store.invalid"} })))
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGKILL))
	f.ready(first)
}

func TestEngine_killedWithoutExecutorIsDetected(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.apply(f.work)
	first := f.ready(executor.EngineReport{})
	// Kill the engine while no executor is running. The next executor must not trust the saved report.
	f.stop()
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGKILL))
	f.open()
	require.Greater(t, f.ready(first).Restarts, first.Restarts)
}

func TestEngine_stoppedAtShutdownAndRestarted(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.apply(f.work)
	first := f.ready(executor.EngineReport{})
	require.NoError(t, f.host.Shutdown(t.Context(), true))
	o, r := f.seen()
	require.Equal(t, executor.PhaseRunning, o.Phase)
	require.Nil(t, o.Exit)
	require.False(t, r.Ready)
	require.Empty(t, r.Address)
	require.ErrorIs(t, syscall.Kill(first.PID, 0), syscall.ESRCH)
	f.stop()

	f.open()
	second := f.ready(first)
	require.Equal(t, first.APIKey.Reveal(), second.APIKey.Reveal())
}

func TestEngine_portBelowThoseOfConnections(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.apply(f.work)
	address, err := url.Parse(f.ready(executor.EngineReport{}).Address)
	require.NoError(t, err)
	port, err := strconv.Atoi(address.Port())
	require.NoError(t, err)
	require.GreaterOrEqual(t, port, 1024)
	require.Less(t, port, 30000, "the port must be below the ports that outgoing connections may take")
}

func TestEngine_keyNotOnCommandLine(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "good")
	f.apply(f.work)
	r := f.ready(executor.EngineReport{})
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil {
			require.NotContains(t, string(line), r.APIKey.Reveal())
		}
	}
	work := filepath.Join(f.dir, "works", f.work.Key.String())
	for _, name := range []string{"key", "assignment.json"} {
		info, err := os.Stat(filepath.Join(work, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	raw, err := os.ReadFile(filepath.Join(work, "state.json"))
	require.NoError(t, err)
	require.NotContains(t, string(raw), r.APIKey.Reveal())
}

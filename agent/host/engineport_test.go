package host_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
)

// portEngine is the source of a fake engine. The mode selects when it listens, options are the socket options with which
// it binds its port, and name is the only name in its model list.
const portEngine = `
import http.server, json, os, signal, socket, socketserver, sys, threading, time
mode, options, name, host, port, key = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), open(sys.argv[6]).read().strip()
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args): pass
    def answer(self, status, body, kind="application/json"):
        self.send_response(status); self.send_header("Content-Type", kind); self.end_headers(); self.wfile.write(body.encode())
    def do_GET(self): self.answer(200, json.dumps({"data": [{"id": name}]}))
    def do_POST(self):
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer " + key: return self.answer(401, "{}")
        if ask.get("stream"):
            return self.answer(200, 'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n', "text/event-stream")
        self.answer(200, json.dumps({"choices": [{"message": {"content": "x"}}]}))
class Server(http.server.ThreadingHTTPServer):
    allow_reuse_address, allow_reuse_port = "address" in options, "port" in options
if mode == "hang" or (mode in ("load", "exit") and not os.path.exists(os.path.join(os.path.dirname(sys.argv[0]), "loaded"))):
    print("engine begins", flush=True)
    while mode == "exit":
        with socket.socket() as s: s.bind((host, port))
        time.sleep(0.005)
    signal.pause()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
server = Server((host, port), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
signal.sigwait([signal.SIGUSR1])
server.shutdown(); server.server_close()
signal.pause()
`

func portWork(program executor.ObjectRef, mode, options, name string) executor.Work {
	return executor.Work{
		Key: executor.Key{WorkID: "wrk_" + name, Generation: 1, Fence: 1}, Kind: executor.KindEngine, Desired: executor.DesiredRunning,
		Engine: &executor.EngineSpec{
			Driver: "command", Model: []executor.ObjectRef{program}, ServedNames: []string{name}, ProbeDeadline: time.Minute,
			Command: []string{"python", "{model}/engine.py", mode, options, name, "{host}", "{port}", "{api_key_file}"},
		},
	}
}

func newPortEngine(t *testing.T, mode string) *fakeEngine {
	t.Helper()
	f := newFakeEngine(t, "good")
	f.work = portWork(f.plane.Put("engine.py", []byte(portEngine)), mode, "address", "only")
	return f
}

// chosenPort waits until the process of the n-th start runs and returns its port.
func (f *fakeEngine) chosenPort(n int) int {
	f.Helper()
	dir := filepath.Join(f.dir, "works", f.work.Key.String(), "starts", strconv.Itoa(n))
	var address struct{ Address string }
	f.until("the engine is started", func() bool {
		var running struct{ Command struct{ PID int } }
		raw, err := os.ReadFile(filepath.Join(dir, "run.json"))
		return err == nil && json.Unmarshal(raw, &running) == nil && running.Command.PID != 0
	})
	raw, err := os.ReadFile(filepath.Join(dir, "address.json"))
	require.NoError(f, err)
	require.NoError(f, json.Unmarshal(raw, &address))
	return portOf(f.T, address.Address)
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	return port
}

// stranger listens on a port like a program other than the engine, as soon as the port is free. It returns the number of HTTP
// requests that it has received.
func (f *fakeEngine) stranger(port int) *atomic.Int32 {
	f.Helper()
	var l net.Listener
	share := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return err
	}}
	f.until("the port is free", func() (ok bool) {
		var err error
		l, err = share.Listen(f.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
		return err == nil
	})
	requests := &atomic.Int32{}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	f.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return requests
}

func TestEngine_portTakenBeforeItListens(t *testing.T) {
	t.Parallel()
	// The engine is still loading, or it exits because it cannot bind its port.
	for _, mode := range []string{"load", "exit"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newPortEngine(t, mode)
			f.apply(f.work)
			port := f.chosenPort(0)
			dir := filepath.Join(f.dir, "works", f.work.Key.String())
			f.until("the first process is loading", func() bool { raw, _ := os.ReadFile(filepath.Join(dir, "log")); return len(raw) > 0 })
			require.NoError(t, os.WriteFile(filepath.Join(dir, "model", "loaded"), nil, 0o644)) // the next process listens
			requests := f.stranger(port)
			r := f.ready(executor.EngineReport{})
			require.Equal(t, 1, r.Restarts)
			require.NotEqual(t, port, portOf(t, r.Address))
			require.Zero(t, requests.Load(), "a probe was sent to another process")
		})
	}
}

func TestEngine_portTakenAtEachStart(t *testing.T) {
	t.Parallel()
	f := newPortEngine(t, "hang")
	f.apply(f.work)
	var port int
	for n := range 3 {
		port = f.chosenPort(n)
		f.stranger(port)
	}
	exit, r := f.failed()
	require.Equal(t, executor.CodePortTaken, r.Code)
	require.Contains(t, r.Message, fmt.Sprintf("(pid %d) listens on port %d", os.Getpid(), port))
	require.Equal(t, 2, r.Restarts)
	require.Equal(t, executor.ReasonStart, exit.Reason)
	require.Contains(t, exit.Message, "port_taken: ")
}

func TestEngine_portTakenWhileServing(t *testing.T) {
	t.Parallel()
	f := newPortEngine(t, "close")
	f.apply(f.work)
	first := f.ready(executor.EngineReport{})
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGUSR1)) // the engine closes its port and keeps running
	requests := f.stranger(portOf(t, first.Address))
	second := f.ready(first)
	require.NotEqual(t, first.Address, second.Address)
	require.Zero(t, requests.Load(), "a probe was sent to another process")
}

// The works are not isolated, so that the kernel lets the stranger share the port: both have the same user.
func TestEngine_portSharedWhileServing(t *testing.T) {
	t.Parallel()
	f := newPortEngine(t, "serve")
	f.stop()
	f.host, f.stop = open(t, f.dir, f.plane, func(c *host.Config) { c.ProbeInterval = 100 * time.Millisecond })
	f.work = portWork(f.work.Engine.Model[0], "serve", "port", "only")
	f.apply(f.work)
	first := f.ready(executor.EngineReport{})
	f.stranger(portOf(t, first.Address))
	require.NotEqual(t, first.Address, f.ready(first).Address)
}

// portLock returns the name of the lock of a port. It must not change, because agents of other versions use it.
func portLock(port int) string { return "@signalbox-engine-port-" + strconv.Itoa(port) }

// Another program may occupy the names of all locks. Engines must start nevertheless.
func TestEngine_portWithoutLock(t *testing.T) {
	t.Parallel()
	const first, all = 2800, 200 // more ports than one, because the kernel reserves a port for a minute after its use
	for n := range all {
		lock, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", portLock(firstPort+first+n))
		if err == nil {
			t.Cleanup(func() { _ = lock.Close() })
		}
	}
	f := newAgent(t, newFewPorts(first, all))
	f.apply(portWorks(f, "unlocked", 1)...)
	require.GreaterOrEqual(t, portOf(t, f.allReady(1)["unlocked-0"].Address), firstPort+first)
}

func TestEngine_portLockedUntilStartHasEnded(t *testing.T) {
	t.Parallel()
	f := newPortEngine(t, "hang")
	f.apply(f.work)
	name := portLock(f.chosenPort(0))
	lock := func() error {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", name)
		if err == nil {
			return l.Close()
		}
		return err
	}
	require.ErrorIs(t, lock(), syscall.EADDRINUSE)
	f.stop()
	require.ErrorIs(t, lock(), syscall.EADDRINUSE, "the lock must outlive the agent")
	f.open()
	require.ErrorIs(t, lock(), syscall.EADDRINUSE)
	f.apply()
	f.until("the work is gone", func() bool { return len(f.host.Observed()) == 0 })
	require.NoError(t, lock())
}

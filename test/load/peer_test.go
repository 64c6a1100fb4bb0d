package load

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	// chatPath is the path of a call at the engine.
	chatPath = "/v1/chat/completions"
	// kept is the number of idle connections to the engine that each peer keeps.
	kept = 1024
	// peerStart and peerStop are how long a peer may take to start and to stop.
	peerStart, peerStop = 20 * time.Second, 10 * time.Second
)

// target is a server that gets the load.
type target struct {
	name, addr, path string
	// token is the token of the calls. If it is empty, the load generator sends one of its own.
	token secret.String
	// pids are the processes whose CPU time and memory count.
	pids []int
	// database is the process of its database server, or 0.
	database int
}

// databaseTime returns the CPU time that the database server has used, with that of its processes that have ended.
func (t *target) databaseTime(b *testing.B) (total time.Duration) {
	b.Helper()
	if t.database == 0 {
		return 0
	}
	for _, pid := range append(children(t.database), t.database) {
		total += cpuTime(pid, pid == t.database)
	}
	return total
}

// cpuTime returns the CPU time of a process, and that of its children which have ended if requested. It returns 0 if the
// process has ended.
func cpuTime(pid int, ended bool) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	const user, tick = 11, 10 * time.Millisecond // the index of utime after the name, which may contain spaces
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	last := user + 2 // utime and stime; cutime and cstime follow
	if ended {
		last += 2
	}
	var total time.Duration
	for _, text := range fields[user:last] {
		n, _ := strconv.Atoi(text)
		total += time.Duration(n) * tick
	}
	return total
}

// children returns the processes that the main thread of a process has started.
func children(pid int) (out []int) {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for text := range strings.FieldsSeq(string(raw)) {
		if n, err := strconv.Atoi(text); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// nginxProgram returns the path of nginx. The benchmark fails without it.
func nginxProgram(b *testing.B) string {
	b.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	b.Fatal("nginx is missing, with which the proxy is compared; install it (Debian: apt-get install --no-install-recommends nginx-light)")
	return ""
}

const nginxConfig = `
daemon off;
worker_processes auto;
worker_rlimit_nofile 16384;
pid %[1]s/nginx.pid;
events { worker_connections 8192; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_requests 1000000000;
	upstream engine {
		server %[3]s;
		keepalive %[4]d;
		keepalive_requests 1000000000;
	}
	server {
		listen %[2]s backlog=4096;
		location / {
			proxy_pass http://engine;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering off;
		}
	}
}
`

// startNginx starts nginx in front of the engine, with a worker for each core and without buffering or a log of requests.
func startNginx(b *testing.B, program, addr, engine string) *target {
	b.Helper()
	dir := testenv.Folder(b)
	conf := filepath.Join(dir, "nginx.conf")
	require.NoError(b, os.WriteFile(conf, fmt.Appendf(nil, nginxConfig, dir, addr, engine, kept), 0o600))
	master := startPeer(b, addr, exec.CommandContext(b.Context(), program, "-e", "stderr", "-p", dir, "-c", conf))
	return &target{name: nginxName, addr: addr, path: chatPath, pids: append(children(master), master)}
}

// The environment variables of the process that runs the reverse proxy of the standard library: the address on which it
// serves, and that of the engine.
const (
	proxyListen = "BENCH_PROXY_LISTEN"
	proxyEngine = "BENCH_PROXY_ENGINE"
)

// startReverseProxy starts the reverse proxy of the standard library in front of the engine, in a process of its own.
func startReverseProxy(b *testing.B, addr, engine string) *target {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestReverseProxyProcess$")
	cmd.Env = append(os.Environ(), proxyListen+"="+addr, proxyEngine+"="+engine)
	pid := startPeer(b, addr, cmd)
	return &target{name: standardName, addr: addr, path: chatPath, pids: []int{pid}}
}

// TestReverseProxyProcess is the program that startReverseProxy starts. It serves until the process receives a signal.
func TestReverseProxyProcess(t *testing.T) {
	addr := os.Getenv(proxyListen)
	if addr == "" {
		return // the code below runs only in the process that startReverseProxy starts
	}
	engine := &url.URL{Scheme: "http", Host: os.Getenv(proxyEngine)}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(engine) },
		Transport:     &http.Transport{MaxIdleConnsPerHost: kept, DisableCompression: true},
		FlushInterval: -1,
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	require.NoError(t, (&http.Server{Handler: proxy, ReadHeaderTimeout: peerStart}).Serve(l))
}

// startPeer starts a server, waits until it accepts connections, and returns its process id. The server is stopped when
// the benchmark ends.
func startPeer(b *testing.B, addr string, cmd *exec.Cmd) int {
	b.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // a killed nginx would leave its workers behind
	cmd.WaitDelay = peerStop
	require.NoError(b, cmd.Start())
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	b.Cleanup(func() { <-done }) // the context of the benchmark has ended
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		conn, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", addr)
		if err == nil {
			require.NoError(b, conn.Close())
			return cmd.Process.Pid
		}
		select {
		case <-done:
			require.FailNow(b, "the peer ended", "%s: %s", cmd.Path, output.String())
		default:
			require.Less(b, time.Since(began), peerStart, "%s does not serve at %s", cmd.Path, addr)
		}
	}
}

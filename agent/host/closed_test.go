package host_test

import (
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// alone is a program without a network. It prints what it reaches, before and after its endpoint has moved.
const alone = `
import os, socket, sys, time, urllib.parse
other, neighbour = sys.argv[1:]
def reach(port):
    try:
        with socket.create_connection(("127.0.0.1", int(port)), 10): return "reached"
    except OSError: return "closed"
def endpoint():
    with open(os.environ["SERVICE_JOB_ENDPOINT_FILE"]) as f: return urllib.parse.urlsplit(f.read().strip()).port
def send():
    try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (neighbour, 53)); return "sent"
    except OSError: return "closed"
def look(name):
    try: return socket.getaddrinfo(name, 80, socket.AF_INET)[0][4][0]
    except OSError: return "unknown"
first = endpoint()
print("endpoint", reach(first), "other", reach(other), "datagram", send(), flush=True)
print("master", look(os.environ["SERVICE_JOB_MASTER_ADDR"]), "host", look(socket.gethostname()), "name", look("signalbox.dev"), flush=True)
while endpoint() == first: time.sleep(0.02)
while reach(endpoint()) == "closed": time.sleep(0.02)
print("moved, other", reach(other), "datagram", send(), flush=True)
`

// withPasta returns a function that changes the config. If the agent does not run as root, the function makes sure that
// the agent finds pasta.
func withPasta(t *testing.T, change func(*host.Config)) func(*host.Config) {
	t.Helper()
	if os.Geteuid() == 0 {
		return change
	}
	out, err := exec.CommandContext(t.Context(), "../../scripts/tools/pasta.sh").Output()
	require.NoError(t, err, "scripts/tools/pasta.sh")
	return func(c *host.Config) {
		c.Environ = append(c.Environ, "PATH="+strings.TrimSpace(string(out))+":"+os.Getenv("PATH"))
		if change != nil {
			change(c)
		}
	}
}

// nextAddress returns an address that is in a network of the machine but does not belong to the machine.
func nextAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().Is4() || p.Addr().IsLoopback() {
			continue
		}
		if next := p.Addr().Next(); p.Contains(next) && p.Contains(next.Next()) {
			return next.String()
		}
		return p.Addr().Prev().String()
	}
	require.FailNow(t, "the machine has no IPv4 address")
	return ""
}

// listening returns the port of a listener that never accepts a connection.
func listening(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// A closed work reaches only its endpoint, even after the endpoint has moved and another agent has adopted the work.
func TestClosedWork_reachesOnlyItsEndpoint(t *testing.T) {
	t.Parallel()
	a := newAttempt(t, "", withPasta(t, nil))
	a.work.Attempt.Command = []string{"/usr/bin/python3", "-c", alone, listening(t), nextAddress(t)}
	a.work.Attempt.NoNetwork, a.work.Attempt.Env = true, map[string]string{"SERVICE_JOB_MASTER_ADDR": "rank-0.example"}
	a.apply()
	a.reach(executor.PhaseRunning)
	before := "endpoint reached other closed datagram closed\nmaster 127.0.0.1 host 127.0.0.1 name unknown\n"
	require.Eventually(t, func() bool { return strings.Count(a.logText(), "\n") == 2 }, time.Minute, 10*time.Millisecond, "%s", a.logText())
	require.Equal(t, before, a.logText())
	a.stop()
	a.plane.Move()
	a.host, a.stop = open(t, a.dir, a.plane, isolate(withPasta(t, nil)))
	a.work.Attempt.IngestEndpoint = a.plane.Endpoint()
	a.apply()
	require.Equal(t, executor.Exit{}, *a.reach(executor.PhaseExited).Exit, a.logText())
	require.Equal(t, before+"moved, other closed datagram closed\n", a.logText())
}

func TestClosedWork_flush(t *testing.T) {
	t.Parallel()
	d := newFakeIngest(t)
	d.setUnavailable(true)
	a := newAttempt(t, "", withPasta(t, nil))
	a.work.Attempt.Command = []string{"python", "-c", killedReporter}
	a.work.Attempt.Environment.SDK, a.work.Attempt.NoNetwork = true, true
	a.work.Attempt.IngestEndpoint = d.URL + "/api/ingest"
	a.apply()
	require.Equal(t, 9, a.reach(executor.PhaseCollecting).Exit.Signal)
	d.setUnavailable(false)
	a.reach(executor.PhaseExited)
	require.Contains(t, d.received("metrics"), `"value":2.5`)
	start, err := shim.ReadStart(a.path("flush"))
	require.NoError(t, err)
	require.True(t, start.Isolation.Network.Closed)
	u, err := url.Parse(d.URL)
	require.NoError(t, err)
	require.Equal(t, []netip.AddrPort{netip.MustParseAddrPort(u.Host)}, start.Isolation.Network.Reach)
}

// A node that cannot close networks must not start a work that requests no network.
func TestClosedWork_refused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*host.Config){
		"network refused": refuseNetwork,
		"no boundary":     func(c *host.Config) { c.Isolate = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttempt(t, "echo ran", change)
			a.work.Attempt.NoNetwork = true
			a.apply()
			exit := a.reach(executor.PhaseExited).Exit
			require.Equal(t, executor.ReasonStart, exit.Reason)
			require.Contains(t, exit.Message, "the job requests no network, but this node cannot close the network of works")
			require.Empty(t, a.logText())
			report, err := a.host.Boundary(t.Context())
			require.NoError(t, err)
			require.False(t, report.ClosesNetwork)
		})
	}
}

func TestClosedWork_reachesWhatTheOperatorNames(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err == nil {
			_, _ = io.WriteString(conn, "hello\n")
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-served })
	other := listening(t)
	a := newAttempt(t, "", withPasta(t, func(c *host.Config) {
		c.ClosedReach, c.WorkReach = []string{l.Addr().String()}, []string{"127.0.0.1:" + other}
	}))
	a.work.Attempt.Command = []string{"/usr/bin/python3", "-c", `
import socket, sys
host, port = sys.argv[1].split(":")
print(socket.create_connection((host, int(port)), 10).recv(9), flush=True)
try: socket.create_connection((host, int(sys.argv[2])), 10); print("reached")
except OSError: print("closed")`, l.Addr().String(), other}
	a.work.Attempt.NoNetwork = true
	a.apply()
	a.reach(executor.PhaseExited)
	require.Equal(t, "b'hello\\n'\nclosed\n", a.logText(), "a closed work must not reach what only other works may reach")
}

package shim_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

// connecting is a program that reads addresses, connects to each and prints whether the other side sent a line.
const connecting = `
import socket, sys
own = socket.create_server(("127.0.0.1", 0))
print("port", own.getsockname()[1], flush=True)
client = socket.create_connection(own.getsockname(), 5)
server, _ = own.accept(); server.sendall(b"x"); assert client.recv(1) == b"x"
print("own port", flush=True)
for address in open("places"):
    host, port = address.split()
    try:
        with socket.create_connection((host, int(port)), 10) as s: print(port, "reached" if s.recv(9) else "empty", flush=True)
    except OSError as e: print(port, "closed", flush=True)
try:
    datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); datagram.connect(("127.0.0.1", 9)); datagram.send(b"x")
    print("datagram sent", flush=True)
except OSError: print("datagram closed", flush=True)
for family, kind, protocol in (("AF_VSOCK", 1, 0), ("AF_ALG", 5, 0), ("AF_INET", 1, 262), ("AF_PACKET", 2, 0), ("AF_TIPC", 1, 0)):
    try: socket.socket(getattr(socket, family), kind, protocol); print("socket", family, protocol, flush=True)
    except OSError: pass
try:
    abstract = socket.socket(socket.AF_UNIX); abstract.connect("\0" + open("abstract").read()); print("abstract socket", flush=True)
except OSError: pass
print("done", flush=True)
while True:
    s, _ = own.accept(); s.sendall(b"hello\n"); s.close()
`

// greet listens on the address and sends a line to each caller.
func greet(t *testing.T, network, address string) net.Addr {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello\n")
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-served })
	return l.Addr()
}

// connects starts a work with the given network. The work runs the program `connecting`, which connects to the places.
func connects(t *testing.T, user int, n boundary.Network, places ...string) *harness {
	t.Helper()
	b := script(t, "")
	b.isolate(user)
	b.start.Isolation.Network = n
	b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", connecting}
	lines := ""
	for _, place := range places {
		lines += strings.ReplaceAll(place, ":", " ") + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(b.start.Dir, "places"), []byte(lines), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(b.start.Dir, "abstract"), []byte(abstractName()), 0o644))
	b.launch()
	t.Cleanup(func() {
		_ = b.Stop(b.dir, 0)
		_, _, _ = b.Await(context.Background(), b.dir)
	})
	b.awaitLine("\ndone\n")
	return b
}

func abstractName() string { return "signalbox-test-" + strconv.Itoa(os.Getpid()) }

// own returns the address on which the program accepts connections.
func (b *harness) own() string {
	_, rest, _ := strings.Cut(b.log(), "port ")
	port, _, _ := strings.Cut(rest, "\n")
	return "127.0.0.1:" + port
}

// TestIsolated_network restricts works by their user ids, which needs root.
func TestIsolated_network(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return // see TestIsolated_ownNetwork
	}
	listener, database := greet(t, "tcp", "127.0.0.1:0"), greet(t, "tcp", "127.0.0.1:0")
	greet(t, "unix", "@"+abstractName())
	const users = 230_000 + 1000
	n := boundary.Network{Kind: boundary.Filtered, Reach: []netip.AddrPort{netip.MustParseAddrPort(listener.String())}}
	engine := connects(t, users, n)
	b := connects(t, users+1, n, listener.String(), database.String(), engine.own(), "127.0.0.1:9")
	require.Equal(t, "port "+strings.TrimPrefix(b.own(), "127.0.0.1:")+"\nown port\n"+
		strings.TrimPrefix(listener.String(), "127.0.0.1:")+" reached\n"+strings.TrimPrefix(database.String(), "127.0.0.1:")+" closed\n"+
		strings.TrimPrefix(engine.own(), "127.0.0.1:")+" closed\n9 closed\ndatagram closed\ndone\n", b.log())
	line, err := firstLine(t.Context(), engine.own())
	require.NoError(t, err, "the agent must reach the engine")
	require.Equal(t, "hello\n", line)
}

// pasta returns the path of pasta.
func pasta(t *testing.T) string {
	t.Helper()
	if found, err := exec.LookPath("pasta"); err == nil {
		return found
	}
	out, err := exec.CommandContext(t.Context(), "../../../scripts/tools/pasta.sh").Output()
	require.NoError(t, err, "scripts/tools/pasta.sh")
	return filepath.Join(strings.TrimSpace(string(out)), "pasta")
}

// TestIsolated_ownNetwork connects works of an agent without root. If the tests run as root, TestAsOrdinaryUser runs
// this test.
func TestIsolated_ownNetwork(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		return
	}
	listener, database, everywhere := greet(t, "tcp", "127.0.0.1:0"), greet(t, "tcp", "127.0.0.1:0"), greet(t, "tcp", "0.0.0.0:0")
	greet(t, "unix", "@"+abstractName())
	node := addressOfNode(t)
	_, port, err := net.SplitHostPort(everywhere.String())
	require.NoError(t, err)
	n := boundary.Network{
		Kind: boundary.OwnNetwork, Program: pasta(t), Reach: []netip.AddrPort{netip.MustParseAddrPort(listener.String())},
		Avoid: []boundary.Destination{{Prefix: netip.PrefixFrom(node, node.BitLen())}},
	}
	b := connects(t, 0, n, listener.String(), database.String(), net.JoinHostPort(node.String(), port))
	require.Equal(t, "port "+strings.TrimPrefix(b.own(), "127.0.0.1:")+"\nown port\n"+
		strings.TrimPrefix(listener.String(), "127.0.0.1:")+" reached\n"+strings.TrimPrefix(database.String(), "127.0.0.1:")+" closed\n"+
		port+" closed\ndatagram sent\ndone\n", b.log(), "a datagram can be sent, but stays in the network of the work")
	require.NoError(t, b.Stop(b.dir, 0))
	b.ends()
	r, err := b.Running(b.dir)
	require.NoError(t, err)
	require.False(t, r.Shim.Alive())
}

// TestIsolated_ownNetworkServes reaches a port inside the network of a work, as the agent does when it probes an
// engine.
func TestIsolated_ownNetworkServes(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		return
	}
	free := greet(t, "tcp", "127.0.0.2:0") // no program has this port on 127.0.0.1
	_, port, err := net.SplitHostPort(free.String())
	require.NoError(t, err)
	b := script(t, "")
	b.isolate(0)
	b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", `
import socket, sys
own = socket.create_server(("127.0.0.1", int(sys.argv[1]))); print("begun", flush=True)
s, _ = own.accept(); s.sendall(b"hello\n"); s.close()`, port}
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	b.start.Isolation.Network = boundary.Network{Kind: boundary.OwnNetwork, Program: pasta(t), Serve: number}
	b.launch()
	b.awaitLine("begun")
	line, err := firstLine(t.Context(), "127.0.0.1:"+port)
	require.NoError(t, err, b.log())
	require.Equal(t, "hello\n", line)
	exit, found := b.ends()
	require.True(t, found)
	require.Zero(t, exit.Code)
}

// addressOfNode returns an address of the machine that is not on loopback.
func addressOfNode(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			return p.Addr()
		}
	}
	t.Fatal("the machine has no IPv4 address")
	return netip.Addr{}
}

// TestIsolated_networkChanges moves the address that a running work reaches.
func TestIsolated_networkChanges(t *testing.T) {
	t.Parallel()
	before, after := greet(t, "tcp", "127.0.0.1:0"), greet(t, "tcp", "127.0.0.1:0")
	b := script(t, `echo begun; while :; do python3 -c 'import socket,sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).recv(9)' `+
		strings.TrimPrefix(after.String(), "127.0.0.1:")+` 2> /dev/null && echo moved && break; sleep 0.05; done`)
	b.isolate(232_000)
	n := boundary.Network{Kind: boundary.Filtered, Reach: []netip.AddrPort{netip.MustParseAddrPort(before.String())}}
	if os.Getuid() != 0 {
		n.Kind, n.Program = boundary.OwnNetwork, pasta(t)
	}
	b.start.Isolation.Network = n
	b.launch()
	b.awaitLine("begun")
	n.Reach = []netip.AddrPort{netip.MustParseAddrPort(after.String())}
	require.NoError(t, b.Reach(b.dir, n))
	exit, found := b.ends()
	require.True(t, found)
	require.Zero(t, exit.Code, b.log())
	require.Equal(t, "begun\nmoved\n", b.log())
	require.NoError(t, b.Reach(b.dir, n), "Reach must accept a work that has ended")
}

// killPasta kills the process that connects the network of the work.
func (b *harness) killPasta() {
	b.Helper()
	r, err := b.Running(b.dir)
	require.NoError(b, err)
	killed := 0
	for _, pid := range shim.Descendants(r.Shim.PID) {
		name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		if err == nil && strings.HasPrefix(string(name), "pasta") {
			require.NoError(b, unix.Kill(pid, unix.SIGKILL))
			killed++
		}
	}
	require.Equal(b, 1, killed)
}

// TestIsolated_ownNetworkReconnects kills pasta while a work runs.
func TestIsolated_ownNetworkReconnects(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		return // see TestIsolated_ownNetwork
	}
	before, after := greet(t, "tcp", "127.0.0.1:0"), greet(t, "tcp", "127.0.0.1:0")
	b := script(t, `for round in 1 2; do until [ -e go$round ]; do sleep 0.01; done
until python3 -c 'import socket,sys; assert socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).recv(9)' $(cat go$round) 2> /dev/null; do sleep 0.05; done
echo reached $round; done`)
	b.isolate(0)
	n := boundary.Network{Kind: boundary.OwnNetwork, Program: pasta(t), Reach: []netip.AddrPort{netip.MustParseAddrPort(before.String())}}
	b.start.Isolation.Network = n
	b.launch()
	reach := func(round string, place net.Addr) {
		t.Helper()
		path := filepath.Join(b.start.Dir, "go"+round)
		require.NoError(t, os.WriteFile(path+".new", []byte(strings.TrimPrefix(place.String(), "127.0.0.1:")), 0o644))
		require.NoError(t, os.Rename(path+".new", path))
		b.awaitLine("reached " + round + "\n")
	}
	require.Eventually(t, func() bool {
		r, err := b.Running(b.dir)
		return err == nil && r.First.Alive()
	}, time.Minute, time.Millisecond)
	b.killPasta()
	reach("1", before)

	b.killPasta()
	n.Reach = []netip.AddrPort{netip.MustParseAddrPort(after.String())}
	require.NoError(t, b.Reach(b.dir, n))
	reach("2", after)
	exit, found := b.ends()
	require.True(t, found)
	require.Zero(t, exit.Code)
}

// firstLine connects to the address and returns the first line that the other side sends.
func firstLine(ctx context.Context, address string) (string, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return bufio.NewReader(conn).ReadString('\n')
}

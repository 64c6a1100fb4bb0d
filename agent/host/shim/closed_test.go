package shim_test

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// looking is for a work without a network. It tries its own port, the addresses in its arguments, names, and datagrams.
const looking = `
import socket, sys
own = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(own.getsockname(), 5); own.accept()[0].sendall(b"x"); assert client.recv(1) == b"x"
print("own port", flush=True)
def reach(host, port):
    try:
        with socket.create_connection((host, int(port)), 10) as s: return "reached" if s.recv(9) else "empty"
    except OSError: return "closed"
neighbour, *places = sys.argv[1:]
for place in places: print(reach(*place.split(":")), flush=True)
for name in "localhost", "control.example", "rank-0", "other.example":
    try: print(name, socket.getaddrinfo(name, 80, socket.AF_INET)[0][4][0], flush=True)
    except OSError: print(name, "unknown", flush=True)
for port in 9, 53:
    try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (neighbour, port)); print("datagram sent", flush=True)
    except OSError: print("datagram closed", flush=True)
print(reach(neighbour, 53), flush=True)
print("done", flush=True)
while reach(*places[-1].split(":")) != "reached": pass
print("moved", reach(*places[0].split(":")), flush=True)
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (neighbour, 9)); print("datagram sent", flush=True)
except OSError: print("datagram closed", flush=True)
`

// neighbour returns an address that is in the network of the node but does not belong to the node.
func neighbour(t *testing.T) string {
	t.Helper()
	node := addressOfNode(t)
	next := node.Next()
	if bytes := next.As4(); bytes[3] == 0 || bytes[3] == 255 {
		next = node.Prev()
	}
	return next.String()
}

// TestIsolated_closedNetwork runs a command without a network. TestAsOrdinaryUser also runs this test as an ordinary
// user.
func TestIsolated_closedNetwork(t *testing.T) {
	t.Parallel()
	node := net.JoinHostPort(addressOfNode(t).String(), "0")
	listener, remote, after, database := greet(t, "tcp", "127.0.0.1:0"), greet(t, "tcp", node), greet(t, "tcp", node), greet(t, "tcp", "127.0.0.1:0")
	b := script(t, "")
	b.isolate(234_000)
	n := boundary.Network{
		Kind: boundary.Filtered, Closed: true, Hosts: filepath.Join(b.start.Dir, "hosts"),
		Reach: []netip.AddrPort{netip.MustParseAddrPort(listener.String()), netip.MustParseAddrPort(remote.String())},
	}
	if os.Getuid() != 0 {
		n.Kind, n.Program = boundary.OwnNetwork, pasta(t)
	}
	require.NoError(t, os.WriteFile(n.Hosts, []byte(boundary.OwnHosts("rank-0")+"192.0.2.77 control.example\n"), 0o644))
	b.start.Isolation.Network = n
	b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", looking, neighbour(t), remote.String(), listener.String(), database.String(), after.String()}
	b.launch()
	t.Cleanup(func() {
		_ = b.Stop(b.dir, 0)
		_, _, _ = b.Await(context.Background(), b.dir)
	})
	b.awaitLine("\ndone\n")
	begin := "own port\nreached\nreached\nclosed\nclosed\nlocalhost 127.0.0.1\ncontrol.example 192.0.2.77\nrank-0 127.0.0.1\nother.example unknown\n" +
		"datagram closed\ndatagram closed\nclosed\ndone\n"
	require.Equal(t, begin, b.log())
	// The listener moves. An agent of an earlier version does not write that the network is closed.
	require.NoError(t, b.Reach(b.dir, boundary.Network{Kind: n.Kind, Program: n.Program, Reach: []netip.AddrPort{netip.MustParseAddrPort(after.String())}}))
	exit, found := b.ends()
	require.True(t, found)
	require.Zero(t, exit.Code, b.log())
	require.Equal(t, begin+"moved closed\ndatagram closed\n", b.log())
}

// TestIsolated_closedNetworkChangesEarly changes, before the command is started, which address the command may reach.
func TestIsolated_closedNetworkChangesEarly(t *testing.T) {
	t.Parallel()
	node := net.JoinHostPort(addressOfNode(t).String(), "0")
	before, after := greet(t, "tcp", node), greet(t, "tcp", node)
	b := script(t, `for address in `+strings.ReplaceAll(before.String()+" "+after.String(), ":", "/")+`; do
python3 -c 'import socket,sys; host, port = sys.argv[1].split("/"); print(socket.create_connection((host, int(port)), 10).recv(9))' $address 2> /dev/null || echo closed; done`)
	b.isolate(235_000)
	n := boundary.Network{Kind: boundary.Filtered, Closed: true, Reach: []netip.AddrPort{netip.MustParseAddrPort(before.String())}}
	if os.Getuid() != 0 {
		n.Kind, n.Program = boundary.OwnNetwork, pasta(t)
	}
	b.start.Isolation.Network = n
	n.Reach = []netip.AddrPort{netip.MustParseAddrPort(after.String())}
	raw, err := json.Marshal(n)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(b.dir, "network.json"), raw, 0o600)) // as Reach does
	b.launch()
	_, found := b.ends()
	require.True(t, found)
	require.Equal(t, "closed\nb'hello\\n'\n", b.log())
}

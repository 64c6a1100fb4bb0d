package shim_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// listening is a program that tries to listen on the ports in its arguments, in both address families, and prints the
// results. Then it listens on two ports that the kernel chooses. The queue of the second listener is full as soon as two
// connections wait for the end of their handshakes. The kernel then confirms further connections with SYN cookies.
const listening = `
import select, socket, sys
for port in sys.argv[1:]:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family) as s: s.bind((host, int(port))); s.listen(); print(port, host, "taken", flush=True)
        except OSError as e: print(port, host, e.strerror, flush=True)
chosen = [socket.create_server(("127.0.0.1", 0), backlog=backlog) for backlog in (5, 0)]
print("chosen", *(s.getsockname()[1] for s in chosen))
print("done", flush=True)
while True:
    for ready in select.select(chosen, [], [])[0]:
        s, _ = ready.accept(); s.sendall(b"of the work\n"); s.close()
`

// listens starts a work that must not listen on the given ports. The work runs the program `listening`. listens
// returns what the program printed, and the addresses with the ports that the kernel chose.
func listens(t *testing.T, user int, n boundary.Network, p boundary.Ports, try ...uint16) (results string, chosen []string) {
	t.Helper()
	b := script(t, "")
	b.isolate(user)
	if os.Getuid() == 0 {
		n.Kind = boundary.Filtered
		b.start.Isolation.Network = n
	}
	b.start.Isolation.Ports = p
	b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", listening}
	for _, port := range try {
		b.start.Args = append(b.start.Args, strconv.Itoa(int(port)))
	}
	b.launch()
	t.Cleanup(func() {
		_ = b.Stop(b.dir, 0)
		_, _, _ = b.Await(context.Background(), b.dir)
	})
	b.awaitLine("\ndone\n")
	results, ports, _ := strings.Cut(b.log(), "chosen ")
	for port := range strings.FieldsSeq(strings.TrimSuffix(ports, "\ndone\n")) {
		chosen = append(chosen, "127.0.0.1:"+port)
	}
	require.Len(t, chosen, 2)
	return results, chosen
}

// firstTried is the first of several ports that no other test of this package uses.
const firstTried = 12_340

func TestIsolated_portsOfOthers(t *testing.T) {
	t.Parallel()
	if !guardsPorts() {
		return // Linux before 6.7 cannot guard ports; the node reports that
	}
	const reserved, busy, own, free = firstTried, firstTried + 5, firstTried + 2, firstTried + 6
	results, _ := listens(t, testUser+50, boundary.Network{}, boundary.Ports{
		Reserved: []boundary.PortRange{{First: reserved, Last: reserved + 4}}, Busy: []uint16{busy}, Own: own,
	}, reserved, reserved+4, busy, 80, own, free)
	want := ""
	for _, port := range []int{reserved, reserved + 4, busy, 80} {
		want += fmt.Sprintf("%d 127.0.0.1 Permission denied\n%d ::1 Permission denied\n", port, port)
	}
	for _, port := range []int{own, free} {
		want += fmt.Sprintf("%d 127.0.0.1 taken\n%d ::1 taken\n", port, port)
	}
	require.Equal(t, want, results)
}

// A work that may listen only on chosen ports gets these, and none that it names.
func TestIsolated_chosenPortsOnly(t *testing.T) {
	t.Parallel()
	if !guardsPorts() {
		return // Linux before 6.7 cannot guard ports; the node reports that
	}
	const first, second = firstTried + 7, firstTried + 40
	results, chosen := listens(t, testUser+57, boundary.Network{}, boundary.Ports{ChosenOnly: true}, first, second)
	want := ""
	for _, port := range []int{first, second} {
		want += fmt.Sprintf("%d 127.0.0.1 Permission denied\n%d ::1 Permission denied\n", port, port)
	}
	require.Equal(t, want, results)
	require.Len(t, chosen, 2)
}

// TestIsolated_chosenPortIsReserved tests a case that the kernel cannot refuse: the kernel itself chooses a reserved
// port for the work.
func TestIsolated_chosenPortIsReserved(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return // without root, works have networks of their own
	}
	_, served := listens(t, testUser+51, boundary.Network{}, boundary.Ports{})
	for _, address := range served {
		line, err := firstLine(t.Context(), address)
		require.NoError(t, err)
		require.Equal(t, "of the work\n", line)
	}

	all := boundary.Ports{Reserved: []boundary.PortRange{{First: 1024, Last: 65535}}}
	_, open := listens(t, testUser+52, boundary.Network{}, all)
	_, closed := listens(t, testUser+53, boundary.Network{Closed: true}, all)
	for _, address := range append(open, closed...) {
		require.Zero(t, connected(t, address, 4), "the work must not confirm a connection on a reserved port")
	}
	line, err := firstLine(t.Context(), greet(t, "tcp", "127.0.0.1:0").String())
	require.NoError(t, err, "a program that is not a work must accept connections on a reserved port")
	require.Equal(t, "hello\n", line)
}

// requesting is a program that begins to open 50 connections to the port in its first argument. Its second argument is
// the source address, which the machine need not have.
const requesting = `
import signal, socket, sys
port, source = int(sys.argv[1]), sys.argv[2]
family, host = (socket.AF_INET6, "::1") if ":" in source else (socket.AF_INET, "127.0.0.1")
IPV6_FREEBIND = 78
all = [socket.socket(family) for _ in range(50)]
for s in all:
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
    s.bind((source, 0)); s.setblocking(False); s.connect_ex((host, port))
print("requested", flush=True)
signal.pause()`

// requests runs the program `requesting` with the user and the restrictions of a work. It returns how many connections to
// the service wait for the end of their handshakes. The program itself is not a work, because works cannot set the option.
func requests(t *testing.T, user int, i boundary.Isolation, service netip.AddrPort, source string) (waiting int) {
	t.Helper()
	b := script(t, `echo ready; exec sleep infinity`)
	b.isolate(user)
	b.start.Isolation.Network, b.start.Isolation.Ports = i.Network, i.Ports
	b.launch()
	b.awaitLine("ready\n")
	program := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", requesting, strconv.Itoa(int(service.Port())), source)
	program.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	output, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "requested\n", line)
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(table)) {
			const unconfirmed = "03"
			fields := strings.Fields(line)
			if strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", service.Port())) && fields[3] == unconfirmed {
				waiting++
			}
		}
	}
	require.NoError(t, program.Process.Kill())
	_ = program.Wait() // It was killed.
	require.NoError(t, b.Stop(b.dir, 0))
	b.ends()
	return waiting
}

// TestIsolated_foreignAddressRefused checks that a work cannot send from an address that the node does not have.
func TestIsolated_foreignAddressRefused(t *testing.T) {
	t.Parallel()
	b := isolated(t, `exec /usr/bin/python3 -c '
import socket
IP_FREEBIND, IPV6_FREEBIND = 15, 78
six, four = socket.socket(socket.AF_INET6), socket.socket()
for s, level, option in (six, socket.IPPROTO_IPV6, IPV6_FREEBIND), (six, socket.IPPROTO_IP, IP_FREEBIND), (four, socket.IPPROTO_IP, IP_FREEBIND):
    try: s.setsockopt(level, option, 1); print("allowed")
    except PermissionError: print("refused")
four.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)'`)
	b.launch()
	exit, found := b.ends()
	require.True(t, found)
	require.Zero(t, exit.Code, b.log())
	require.Equal(t, "refused\nrefused\nrefused\n", b.log())
}

// TestIsolated_requestsLeaveQueuesEmpty checks that a work leaves no requests in the queue of another program's
// listener. If it could fill the queue, the listener would accept no connections: its SYN cookies are dropped.
func TestIsolated_requestsLeaveQueuesEmpty(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return // without root, works have networks of their own
	}
	var i boundary.Isolation
	i.Network.Kind = boundary.Filtered
	service := netip.MustParseAddrPort(greet(t, "tcp4", "127.0.0.1:0").String())
	i.Ports.Reserved = []boundary.PortRange{{First: service.Port(), Last: service.Port()}}
	require.Zero(t, requests(t, testUser+54, i, service, "127.0.0.1"), "requests to a reserved port")
	listener := netip.MustParseAddrPort(greet(t, "tcp6", "[::1]:0").String())
	i.Network.Reach = []netip.AddrPort{listener}
	require.Zero(t, requests(t, testUser+55, i, listener, "2001:db8::1"), "requests from an address that the node does not have")

	b := script(t, `exec /usr/bin/python3 -c 'import socket,sys; assert socket.create_connection(("::1", int(sys.argv[1])), 20).recv(9)' `+
		strconv.Itoa(int(listener.Port())))
	b.isolate(testUser + 56)
	b.start.Isolation.Network = i.Network
	b.launch()
	exit, found := b.ends()
	require.True(t, found)
	require.Zero(t, exit.Code, "a work must reach the listener from the usual address: %s", b.log())
}

// connected opens several connections to the address at the same time and returns how many of them were confirmed. A
// connection that is not confirmed does not fail by itself for a long time, so the wait is limited.
func connected(t *testing.T, address string, connections int) int {
	t.Helper()
	dialer := net.Dialer{Timeout: time.Second}
	var confirmed atomic.Int32
	var dialing sync.WaitGroup
	for range connections {
		dialing.Go(func() {
			if conn, err := dialer.DialContext(t.Context(), "tcp", address); err == nil {
				confirmed.Add(1)
				_ = conn.Close()
			}
		})
	}
	dialing.Wait()
	return int(confirmed.Load())
}

// guardsPorts reports whether the kernel can refuse the ports on which a work must not listen.
func guardsPorts() bool {
	f := boundary.Findings{Kind: boundary.OwnUser, Network: boundary.Filtered, Landlock: boundary.LandlockVersion()}
	return f.Report().Reasons["ports"] == ""
}

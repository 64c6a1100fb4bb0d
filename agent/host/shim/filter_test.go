package shim_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
)

// collectOnSignal makes SIGUSR1 start a garbage collection in the calling process. The runtime itself starts one at
// least every two minutes.
func collectOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for range signals {
			const twice = 2 // the first collection may only find the garbage that the second one frees
			for range twice {
				done := make(chan struct{})
				runtime.AddCleanup(new([64]byte), func(done chan struct{}) { close(done) }, done)
				runtime.GC()
				<-done
			}
			fmt.Println("collected")
		}
	}()
}

// TestIsolated_filterOutlivesCollection starts a garbage collection in each process that could own the filter of a
// command. The filter must remain.
func TestIsolated_filterOutlivesCollection(t *testing.T) {
	t.Parallel()
	node := addressOfNode(t)
	port := greet(t, "tcp", net.JoinHostPort(node.String(), "0"))
	b := script(t, "")
	b.isolate(236_000)
	n := boundary.Network{Kind: boundary.Filtered, Avoid: []boundary.Destination{{Prefix: netip.PrefixFrom(node, node.BitLen())}}}
	if os.Getuid() != 0 {
		n.Kind, n.Program = boundary.OwnNetwork, pasta(t)
	}
	b.start.Isolation.Network = n
	host, number, err := net.SplitHostPort(port.String())
	require.NoError(t, err)
	b.start.Path, b.start.Args = "/usr/bin/python3", []string{"python3", "-c", `
import os, socket, sys, time
def connect():
    try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 10); return "reached"
    except OSError: return "closed"
print(connect(), flush=True)
while not os.path.exists("collected"): time.sleep(0.01)
print(*[connect() for _ in range(3)], flush=True)`, host, number}
	b.launch()
	b.awaitLine("closed\n")
	r, err := b.Running(b.dir)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(b.first(), syscall.SIGUSR1))
	b.awaitLine("collected\n")
	require.True(t, r.Shim.Signal(syscall.SIGUSR1))
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(filepath.Join(b.dir, "shim.log"))
		return strings.Contains(string(raw), "collected\n")
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, os.WriteFile(filepath.Join(b.start.Dir, "collected"), nil, 0o600))
	_, found := b.ends()
	require.True(t, found)
	require.Equal(t, "closed\ncollected\nclosed closed closed\n", b.log())
}

// calling is a program that sends a datagram to each of the addresses in its arguments, and prints whether it gets a response.
const calling = `
import socket, sys
for place in sys.argv[1:]:
    host, port, interface = place.split(",")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(3)
    try:
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex(interface))
            s.sendto(b"x", (host, int(port), 0, socket.if_nametoindex(interface)))
        else:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            s.sendto(b"x", (host, int(port)))
        s.recv(1); print(host, "answered", flush=True)
    except OSError as e: print(host, "closed", flush=True)
`

// TestIsolated_groups sends multicasts and broadcasts to sockets of the node, without a boundary and with one.
func TestIsolated_groups(t *testing.T) {
	t.Parallel()
	everywhere, device := listenToGroups(t)
	_, port, err := net.SplitHostPort(everywhere)
	require.NoError(t, err)
	var args []string
	for _, host := range []string{"239.1.2.3", "255.255.255.255", broadcastOfNode(t), "ff12::3"} {
		args = append(args, host+","+port+","+device)
	}
	for _, inside := range []bool{false, true} {
		b := script(t, "")
		want := "answered"
		if inside {
			b.isolate(237_000)
			b.start.Isolation.Network = boundary.Network{Kind: boundary.Filtered}
			if os.Getuid() != 0 {
				b.start.Isolation.Network = boundary.Network{Kind: boundary.OwnNetwork, Program: pasta(t)}
			}
			want = "closed"
		}
		b.start.Path, b.start.Args = "/usr/bin/python3", append([]string{"python3", "-c", calling}, args...)
		b.launch()
		exit, found := b.ends()
		require.True(t, found)
		require.Zero(t, exit.Code, b.log())
		lines := strings.Split(strings.TrimSpace(b.log()), "\n")
		require.Len(t, lines, len(args), b.log())
		for _, line := range lines {
			require.True(t, strings.HasSuffix(line, want), "with the boundary: %t; %s", inside, b.log())
		}
	}
}

// listenToGroups responds to datagrams that are sent to any address of the node or to a multicast group, with IPv4 and
// IPv6. It returns the address of its socket and the network device of the groups.
func listenToGroups(t *testing.T) (address, device string) {
	t.Helper()
	node := addressOfNode(t)
	all, err := net.Interfaces()
	require.NoError(t, err)
	at := slices.IndexFunc(all, func(i net.Interface) bool {
		found, _ := i.Addrs()
		return slices.ContainsFunc(found, func(a net.Addr) bool { return strings.HasPrefix(a.String(), node.String()+"/") })
	})
	require.GreaterOrEqual(t, at, 0)
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "[::]:0") // IPv4 too
	require.NoError(t, err)
	udp, ok := conn.(*net.UDPConn)
	require.True(t, ok)
	raw, err := udp.SyscallConn()
	require.NoError(t, err)
	var joined error
	require.NoError(t, raw.Control(func(fd uintptr) {
		joined = errors.Join(
			unix.SetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: netip.MustParseAddr("ff12::3").As16(), Interface: uint32(all[at].Index)}),
			unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: [4]byte{239, 1, 2, 3}, Ifindex: int32(all[at].Index)}),
		)
	}))
	require.NoError(t, joined)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for buffer := make([]byte, 1); ; {
			_, from, err := udp.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(buffer, from)
		}
	}()
	t.Cleanup(func() { _ = udp.Close(); <-served })
	return udp.LocalAddr().String(), all[at].Name
}

// broadcastOfNode returns the broadcast address of the node's network.
func broadcastOfNode(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		network, ok := a.(*net.IPNet)
		if ok && network.IP.String() == addressOfNode(t).String() {
			ip := slices.Clone(network.IP.To4())
			for n, mask := range network.Mask {
				ip[n] |= ^mask
			}
			return ip.String()
		}
	}
	t.Fatal("the machine has no IPv4 network")
	return ""
}

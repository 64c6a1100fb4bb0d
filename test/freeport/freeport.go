// Package freeport chooses the TCP ports of servers that tests start. No two test processes on a machine get the same port.
package freeport

import (
	mathrand "math/rand/v2"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// attempts bounds the search: with 10,000 ports to choose from, it fails only if almost all are in use.
const attempts = 1000

// Lock returns n free ports of the loopback address. No other test process on this machine gets one of them before the
// test ends.
func Lock(t testing.TB, n int) []string {
	t.Helper()
	out := make([]string, 0, n)
	for range attempts {
		if len(out) == n {
			break
		}
		// Choose a port below those of engines and those that the kernel assigns to connections, because other processes
		// take and free such ports all the time.
		port := strconv.Itoa(10000 + mathrand.IntN(10000))
		if lock(t, port) {
			out = append(out, port)
		}
	}
	require.Len(t, out, n, "no free port between 10000 and 20000")
	return out
}

// lock reports whether the port is free, and locks it until the test ends. The lock is an abstract Unix socket. An open
// port would not do: the programs of an installation could not listen on it.
func lock(t testing.TB, port string) bool {
	t.Helper()
	held, err := net.Listen("unix", "@signalbox-test-port-"+port)
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		_ = held.Close()
		return false
	}
	_ = l.Close()
	t.Cleanup(func() { _ = held.Close() })
	return true
}

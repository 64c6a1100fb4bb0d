package shim_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
)

func TestControl_CheckPort_listenersOfOthers(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"127.0.0.1": true, "0.0.0.0": true, "::": true, "127.0.0.2": false, "::1": false} {
		network := "tcp4"
		if address[0] == ':' {
			network = "tcp"
		}
		port := listenOn(t, network, net.JoinHostPort(address, "0"))
		var none *shim.PortTakenError
		if want {
			none = &shim.PortTakenError{Port: port, PID: os.Getpid()}
		}
		// In a folder without a shim, all listeners are others.
		require.Equal(t, none, shim.Control{}.CheckPort(t.TempDir(), port, 0), address)
		require.Equal(t, none, shim.Control{}.CheckPort(t.TempDir(), port, os.Getuid()+1), address)
	}
}

// listeningWork starts a work in which a process of another session listens on a port that the kernel chooses. It returns
// the port.
func listeningWork(t *testing.T) (*harness, int) {
	t.Helper()
	b := script(t, `setsid python3 -c '
import socket, time
s = socket.create_server(("127.0.0.1", 0)); print("port", s.getsockname()[1], "", flush=True); time.sleep(300)' & sleep 300`)
	b.start.Env = append(b.start.Env, "HOME="+os.Getenv("HOME"), "PATH="+os.Getenv("PATH"))
	b.launch()
	t.Cleanup(func() {
		require.NoError(t, b.Stop(b.dir, 0))
		_, _, _ = b.Await(context.Background(), b.dir)
	})
	b.awaitLine(" \n")
	port, err := strconv.Atoi(strings.Fields(b.log())[1])
	require.NoError(t, err)
	return b, port
}

func TestControl_CheckPort_listenersOfWorks(t *testing.T) {
	t.Parallel()
	one, port := listeningWork(t)
	other, _ := listeningWork(t)
	require.Nil(t, one.CheckPort(one.dir, port, 0))
	taken := other.CheckPort(other.dir, port, 0)
	require.NotNil(t, taken)
	r, err := one.Running(one.dir)
	require.NoError(t, err)
	require.Contains(t, shim.Descendants(r.Shim.PID), taken.PID)
	require.Equal(t, fmt.Sprintf("another process (pid %d) listens on port %d", taken.PID, port), taken.Error())
}

func TestShim_holdsFileWithoutCommand(t *testing.T) {
	t.Parallel()
	b := script(t, "ls -l /proc/$$/fd; echo listed; sleep 300")
	hold, err := os.Create(filepath.Join(t.TempDir(), "held"))
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(hold.Fd()), unix.LOCK_EX))
	b.start.Hold = hold
	b.launch()
	require.NoError(t, hold.Close())
	b.awaitLine("listed")
	require.NotContains(t, b.log(), "/held")
	again, err := os.Open(hold.Name())
	require.NoError(t, err)
	t.Cleanup(func() { _ = again.Close() })
	require.ErrorIs(t, unix.Flock(int(again.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	require.NoError(t, b.Stop(b.dir, 0))
	b.ends()
	require.NoError(t, unix.Flock(int(again.Fd()), unix.LOCK_EX)) // the shim may end after it has written its exit
}

func listenOn(t *testing.T, network, address string) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, text, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return port
}

package allinone

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// bound listens as a start does, closes the listener as a crash does, and returns the port.
func bound(t *testing.T, f *folder, addr string) int {
	t.Helper()
	l, err := f.listen(addr)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return portOf(l)
}

// This test does not run in parallel, because a child that another test starts has a copy of the listener until it
// executes its program. The test has its own loopback address, so that no other test takes the port.
func TestFolder_listen_reusesFreePort(t *testing.T) {
	f := &folder{path: t.TempDir()}
	first := bound(t, f, "127.77.0.1:0")
	for _, again := range []string{"127.77.0.1:0", "127.77.0.1:", "127.77.0.1:0"} {
		require.Equal(t, first, bound(t, f, again), again)
	}
	require.NotEqual(t, first, bound(t, &folder{path: t.TempDir()}, "127.77.0.1:0"), "another folder must have its own port")
}

// This test does not run in parallel, for the reason given at TestFolder_listen_reusesFreePort.
func TestFolder_listen_lastPortInUse(t *testing.T) {
	f := &folder{path: t.TempDir()}
	held, err := f.listen("127.77.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Close() })
	next := bound(t, f, "127.77.0.1:0")
	require.NotEqual(t, portOf(held), next)
	require.Equal(t, next, bound(t, f, "127.77.0.1:0"), "later starts must reuse the new port")
}

func TestFolder_listen_fixedPort(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	held, err := f.listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Close() })
	_, err = f.listen(held.Addr().String())
	require.ErrorContains(t, err, "in use by another process")
	_, err = f.listen("127.0.0.1")
	require.Error(t, err, "a missing port must not count as port 0")
}

func TestFolder_listen_invalidPortFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0\n", "-1", "70000", "eighty", "80 81"} {
		f := &folder{path: t.TempDir()}
		require.NoError(t, os.WriteFile(f.in("port"), []byte(text), 0o600))
		require.NotZero(t, bound(t, f, "127.0.0.1:0"), text)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := (&folder{path: file}).listen("127.0.0.1:0")
	require.ErrorContains(t, err, "save the port")
}

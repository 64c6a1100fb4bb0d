package single

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// bound listens as a start does, and ends as a crash does.
func bound(t *testing.T, f *folder, addr string) int {
	t.Helper()
	l, err := f.listen(addr)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return portOf(l)
}

func TestAFreePortIsTheSameOverRestarts(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	first := bound(t, f, "127.0.0.1:0")
	for _, again := range []string{"127.0.0.1:0", "127.0.0.1:", "127.0.0.1:0"} {
		require.Equal(t, first, bound(t, f, again), again)
	}
	require.NotEqual(t, first, bound(t, &folder{path: t.TempDir()}, "127.0.0.1:0"), "another folder is another installation")
}

func TestAPortThatSomebodyElseHasGivesWayToAFreeOne(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	held, err := f.listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Close() })
	next := bound(t, f, "127.0.0.1:0")
	require.NotEqual(t, portOf(held), next)
	require.Equal(t, next, bound(t, f, "127.0.0.1:0"), "from then on it is that one")
}

func TestAPortThatIsNamedIsTheOneOrNone(t *testing.T) {
	t.Parallel()
	f := &folder{path: t.TempDir()}
	held, err := f.listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Close() })
	_, err = f.listen(held.Addr().String())
	require.ErrorContains(t, err, "in use by another process")
	_, err = f.listen("127.0.0.1")
	require.Error(t, err, "no port is not any port")
}

func TestAPortFileThatTellsNothingIsPassedOver(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0\n", "-1", "70000", "eighty", "80 81"} {
		f := &folder{path: t.TempDir()}
		require.NoError(t, os.WriteFile(f.in("port"), []byte(text), 0o600))
		require.NotZero(t, bound(t, f, "127.0.0.1:0"), text)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := (&folder{path: file}).listen("127.0.0.1:0")
	require.ErrorContains(t, err, "keep the port")
}

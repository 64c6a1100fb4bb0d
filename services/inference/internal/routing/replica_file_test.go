package routing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// replicaID returns a well-formed replica id that ends with the given character.
func replicaID(c string) string { return "rep_" + strings.Repeat("0", 26-len(c)) + c }

func newReplicaFile(t *testing.T) (*ReplicaFile, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "replicas")
	r := &ReplicaFile{Path: path}
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r, path
}

func TestReplicaFile_Enter_predecessors(t *testing.T) {
	t.Parallel()
	first, path := newReplicaFile(t)
	gone, err := first.Enter(replicaID("1"))
	require.NoError(t, err)
	require.Empty(t, gone)
	require.NoError(t, first.Close()) // the kernel does the same when the process ends

	second := &ReplicaFile{Path: path}
	gone, err = second.Enter(replicaID("2"))
	require.NoError(t, err)
	require.Equal(t, []string{replicaID("1")}, gone)
	require.NoError(t, second.Close()) // the second process ends before it releases its predecessor's lease

	third := &ReplicaFile{Path: path}
	gone, err = third.Enter(replicaID("3"))
	require.NoError(t, err)
	require.Equal(t, []string{replicaID("1"), replicaID("2")}, gone, "all unreleased predecessors must be kept")
	require.NoError(t, third.Keep(replicaID("3")))
	require.NoError(t, third.Close())

	fourth := &ReplicaFile{Path: path}
	gone, err = fourth.Enter(replicaID("4"))
	require.NoError(t, err)
	require.Equal(t, []string{replicaID("3")}, gone)
	require.NoError(t, fourth.Keep())
	require.NoError(t, fourth.Close())
	gone, err = first.Enter(replicaID("5"))
	require.NoError(t, err)
	require.Empty(t, gone, "a replica that released its lease must not be listed")
}

// A frozen process still has its lock. It may serve again when it is resumed, so it must not count as ended.
func TestReplicaFile_Enter_lockedByLivingProcess(t *testing.T) {
	t.Parallel()
	living, path := newReplicaFile(t)
	_, err := living.Enter(replicaID("1"))
	require.NoError(t, err)
	other := &ReplicaFile{Path: path}
	gone, err := other.Enter(replicaID("2"))
	require.ErrorIs(t, err, errTaken)
	require.Empty(t, gone)
	require.NoError(t, other.Close())
	again, err := living.Enter(replicaID("3"))
	require.NoError(t, err)
	require.Equal(t, []string{replicaID("1")}, again, "the process without the lock must not write")
}

func TestReplicaFile_Enter_corruptFile(t *testing.T) {
	t.Parallel()
	many := ""
	for c := range 150 {
		many += replicaID(string(rune('a'+c/25))+string("0123456789abcdefghjkmnpqr"[c%25])) + "\n"
	}
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"empty":     {"", 0},
		"zeroes":    {strings.Repeat("\x00", 93), 0},
		"torn line": {replicaID("1") + "\nrep_0000", 1},
		"not an id": {"../../etc\n" + replicaID("1"), 1},
		"too many":  {many, maxGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newReplicaFile(t)
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			gone, err := r.Enter(replicaID("z"))
			require.NoError(t, err)
			require.Len(t, gone, c.want)
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, append(gone, replicaID("z")), strings.Fields(string(raw)))
		})
	}
}

func TestReplicaFile_Enter_missingFolder(t *testing.T) {
	t.Parallel()
	r := &ReplicaFile{Path: filepath.Join(t.TempDir(), "missing", "replicas")}
	_, err := r.Enter(replicaID("1"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, r.Close())
}

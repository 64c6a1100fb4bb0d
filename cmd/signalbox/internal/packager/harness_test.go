package packager

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// harness is a folder to pack.
type harness struct {
	t   *testing.T
	dir string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	return &harness{t: t, dir: t.TempDir()}
}

func (h *harness) put(name, text string) *harness { return h.putMode(name, text, 0o644) }

func (h *harness) putMode(name, text string, mode fs.FileMode) *harness {
	h.t.Helper()
	path := filepath.Join(h.dir, filepath.FromSlash(name))
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(h.t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(h.t, os.Chmod(path, mode)) // independent of the umask
	return h
}

func (h *harness) link(target, name string) *harness {
	h.t.Helper()
	require.NoError(h.t, os.Symlink(target, filepath.Join(h.dir, filepath.FromSlash(name))))
	return h
}

func (h *harness) list() *Listing {
	h.t.Helper()
	l, err := List(h.t.Context(), h.dir, DefaultLimits())
	require.NoError(h.t, err)
	return l
}

// packed returns the bytes of the package.
func (h *harness) packed() []byte {
	h.t.Helper()
	var out bytes.Buffer
	require.NoError(h.t, h.list().Pack(h.t.Context(), &out))
	return out.Bytes()
}

// sent returns the paths that are packed.
func (l *Listing) sent() []string {
	paths := []string{}
	for _, f := range l.Files {
		if f.Excluded == "" {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

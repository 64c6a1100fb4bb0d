package allinone

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func TestOpenFolder_inUse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	f, err := openFolder(dir)
	require.NoError(t, err)
	_, err = openFolder(dir)
	require.EqualError(t, err, fmt.Sprintf(
		"the data folder %s is in use by another signalboxd, process %d; use or stop that one, or choose another folder with --data", dir, os.Getpid()))
	require.NoError(t, f.close())
	again, err := openFolder(dir)
	require.NoError(t, err)
	require.NoError(t, again.close())
}

func TestFolder_keys_generatedOnceAndPrivate(t *testing.T) {
	t.Parallel()
	f, err := openFolder(t.TempDir())
	require.NoError(t, err)
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	first, err := f.keys(now)
	require.NoError(t, err)
	second, err := f.keys(now)
	require.NoError(t, err)
	require.True(t, first.audit.Equal(second.audit))
	require.True(t, first.blobs.Equal(second.blobs))
	require.False(t, first.audit.Equal(first.blobs))
	require.Equal(t, first.ca.CertPEM(), second.ca.CertPEM())
	sealed, err := first.ring.Seal([]byte("x"), "t.c:1")
	require.NoError(t, err)
	_, err = second.ring.Open(sealed, "t.c:1")
	require.NoError(t, err)
	err = filepath.WalkDir(f.in("keys"), func(path string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	})
	require.NoError(t, err)
}

func TestFolder_keys_brokenKeyIsNotReplaced(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]string{"keyring": "keyring", "CA": filepath.Join("ca", "ca.pem")} {
		f, err := openFolder(t.TempDir())
		require.NoError(t, err)
		_, err = f.keys(fixtures.Now())
		require.NoError(t, err)
		entries, err := filepath.Glob(f.in("keys", "ca", "*"))
		require.NoError(t, err)
		path := f.in("keys", broken)
		if name == "CA" {
			path = entries[0]
		}
		require.NoError(t, os.WriteFile(path, []byte("rubbish"), 0o600))
		_, err = f.keys(fixtures.Now())
		require.Error(t, err, name)
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "rubbish", string(raw), "%s: a broken key must stay, because a new key could not open what the old key sealed", name)
		require.NoError(t, f.close())
	}
}

func TestFolder_keep_unreadable(t *testing.T) {
	t.Parallel()
	f, err := openFolder(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(f.in("keys", "audit"), 0o700))
	_, err = f.keep("audit", 32)
	require.ErrorContains(t, err, "read "+f.in("keys", "audit"))
	s, err := f.keep("other", 16)
	require.NoError(t, err)
	require.Len(t, s.Reveal(), 24)
}

func TestOpenFolder_cannotCreate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := openFolder(filepath.Join(file, "data"))
	require.ErrorContains(t, err, "create the data folder")
}

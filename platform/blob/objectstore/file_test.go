package objectstore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/test/blobtest"
)

const limit = 8 << 20

var (
	_ blob.Store = (*objectstore.FileStore)(nil)
	_ blob.Local = (*objectstore.FileStore)(nil)
)

type harness struct {
	*objectstore.FileStore
	root   string
	server *httptest.Server
	log    *bytes.Buffer
}

func open(t *testing.T, change func(*objectstore.FileConfig)) *harness {
	t.Helper()
	r := &harness{root: filepath.Join(t.TempDir(), "blobs"), log: &bytes.Buffer{}}
	r.server = httptest.NewUnstartedServer(nil)
	cfg := objectstore.FileConfig{
		Root: r.root, Limit: limit, Clock: clock.Real(), IDs: id.NewSource(clock.Real(), rand.Reader),
		PublicURL: func() string { return r.server.URL }, Log: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	store, err := objectstore.OpenFiles(cfg)
	require.NoError(t, err)
	r.FileStore, r.server.Config.Handler = store, store.Handler()
	r.server.Start()
	t.Cleanup(func() {
		r.server.Close()
		require.NoError(t, store.Close())
	})
	return r
}

func TestContract(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blobtest.Harness {
		t.Helper()
		return blobtest.Harness{Store: open(t, nil).FileStore, Limit: limit}
	})
}

func sum(body string) string {
	s := sha256.Sum256([]byte(body))
	return hex.EncodeToString(s[:])
}

func (r *harness) put(t *testing.T, key, body string) {
	t.Helper()
	require.NoError(t, r.Put(t.Context(), key, bytes.NewBufferString(body), int64(len(body)), sum(body)))
}

func TestStore_Put_fileNamedByDigest(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	r.put(t, "a/b", "text")
	raw, err := os.ReadFile(filepath.Join(r.root, "a", "b@", sum("text")))
	require.NoError(t, err)
	require.Equal(t, "text", string(raw))
	left, err := os.ReadDir(filepath.Join(r.root, ".aside"))
	require.NoError(t, err)
	require.Empty(t, left)
	info, err := os.Stat(filepath.Join(r.root, "a", "b@", sum("text")))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestStore_keyIsPrefixOfAnother(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	r.put(t, "a", "1")
	r.put(t, "a/b", "2")
	require.NoError(t, r.Delete(t.Context(), "a"))
	info, err := r.Stat(t.Context(), "a/b")
	require.NoError(t, err)
	require.Equal(t, int64(1), info.Size)
	require.NoError(t, r.Delete(t.Context(), "a/b"))
	_, err = os.Stat(filepath.Join(r.root, "a"))
	require.ErrorIs(t, err, os.ErrNotExist, "empty folders are removed")
}

func TestStore_Get_changedBytes(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	r.put(t, "a", "text")
	path := filepath.Join(r.root, "a@", sum("text"))
	for _, swapped := range []string{"Text", "longer text", "t"} {
		require.NoError(t, os.WriteFile(path, []byte(swapped), 0o600))
		body, _, err := r.Get(t.Context(), "a")
		require.NoError(t, err)
		_, err = bytes.NewBuffer(nil).ReadFrom(body)
		require.True(t, fault.Is(err, fault.Dependency), "%s: %v", swapped, err)
		require.ErrorContains(t, err, "have changed")
		require.NoError(t, body.Close())
	}
}

func TestFileStore_OpenKnown(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	r.put(t, "a/b", "data")
	info, err := r.Stat(t.Context(), "a/b")
	require.NoError(t, err)
	read := func(info blob.Info) (string, error) {
		body, err := r.OpenKnown(t.Context(), info)
		if err != nil {
			return "", err
		}
		raw, err := io.ReadAll(body)
		return string(raw), errors.Join(err, body.Close())
	}
	text, err := read(info)
	require.NoError(t, err)
	require.Equal(t, "data", text)
	other := info
	other.SHA256 = sum("other")
	_, err = read(other)
	require.True(t, fault.Is(err, fault.Absent), "an object with another digest must count as missing: %v", err)
	other = info
	other.Key = "a/../b"
	_, err = read(other)
	require.True(t, fault.HasCode(err, blob.CodeKey), "%v", err)
	other = info
	other.Size--
	_, err = read(other)
	require.True(t, fault.HasCode(err, blob.CodeStore), "an object with another size must be a store error: %v", err)
	require.NoError(t, os.WriteFile(filepath.Join(r.root, "a", "b@", info.SHA256), []byte("DATA"), 0o600))
	_, err = read(info)
	require.True(t, fault.HasCode(err, blob.CodeStore), "changed bytes must be a store error: %v", err)
}

func TestStore_symlinksOutOfRoot(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, sum("x")), []byte("x"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(r.root, "a@")))
	require.NoError(t, os.Symlink(outside, filepath.Join(r.root, "dir")))
	_, err := r.Stat(t.Context(), "a")
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	err = r.Put(t.Context(), "dir/b", bytes.NewBufferString("x"), 1, sum("x"))
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestStore_Put_unwritableFolder(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	require.NoError(t, os.RemoveAll(filepath.Join(r.root, ".aside")))
	err := r.Put(t.Context(), "a", bytes.NewBufferString("x"), 1, sum("x"))
	require.True(t, fault.Is(err, fault.Dependency), "%v", err)
	require.True(t, fault.HasCode(err, blob.CodeStore))
	require.Error(t, r.Ready(t.Context()))
	require.NotContains(t, fault.From(err).Text(), r.root, "the error must not reveal the folder")
}

func TestStore_sharedFolder(t *testing.T) {
	t.Parallel()
	a := open(t, nil)
	b := open(t, func(c *objectstore.FileConfig) { c.Root = a.root })
	require.NoError(t, a.Ready(t.Context()))
	a.put(t, "a", "x")
	info, err := b.Stat(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, sum("x"), info.SHA256)
	left, err := os.ReadDir(filepath.Join(a.root, ".aside"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestOpen_removesStaleUploads(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	for name, age := range map[string]time.Duration{"old": 48 * time.Hour, "young": time.Hour, "busy": 48 * time.Hour} {
		folder := filepath.Join(r.root, ".aside", name)
		require.NoError(t, os.Mkdir(folder, 0o700))
		file := filepath.Join(folder, sum(name))
		require.NoError(t, os.WriteFile(file, []byte("half"), 0o600))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(folder, then, then))
		if name != "busy" {
			require.NoError(t, os.Chtimes(file, then, then))
		}
	}
	open(t, func(c *objectstore.FileConfig) { c.Root = r.root })
	left, err := os.ReadDir(filepath.Join(r.root, ".aside"))
	require.NoError(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"busy", "young"}, names, "an upload in progress is not stale")
}

func TestStore_Put_canceledContext(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.Put(ctx, "a", bytes.NewBufferString("x"), 1, sum("x"))
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, fault.HasCode(err, fault.CodeCanceled))
}

package objcache_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/objcache"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

func key() executor.Key { return executor.Key{WorkID: "w", Generation: 1, Fence: 1} }

func newStore(t *testing.T, maxBytes int64) (*objcache.Store, *executortest.ControlPlane, string) {
	t.Helper()
	dir, p := t.TempDir(), executortest.NewControlPlane(t)
	return objcache.NewStore(dir, maxBytes, p, clock.Real()), p, dir
}

func TestStore_Fetch_concurrentCallsDownloadOnce(t *testing.T) {
	t.Parallel()
	s, p, dir := newStore(t, 0)
	const objects = 200 // Many, so that some calls look for the file before a download ends and ask for it afterwards.
	for i := range objects {
		ref := p.Put("a"+strconv.Itoa(i), []byte("data"+strconv.Itoa(i)))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := s.Fetch(t.Context(), key(), ref); err != nil {
					t.Errorf("fetch: %v", err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, p.Fetched(ref), i)
		require.FileExists(t, filepath.Join(dir, ref.SHA256))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, objects)
}

func TestStore_Fetch_brokenDownload(t *testing.T) {
	t.Parallel()
	s, p, dir := newStore(t, 0)
	ref := p.Put("a", []byte("data"))
	p.FailDownloads(ref, 1)
	_, err := s.Fetch(t.Context(), key(), ref)
	require.Error(t, err)
	require.NotErrorIs(t, err, executor.ErrPermanent)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestStore_Copy_invalidReference(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*executor.ObjectRef){
		"other hash":    func(r *executor.ObjectRef) { r.SHA256 = strings.Repeat("0", 64) },
		"too large":     func(r *executor.ObjectRef) { r.SizeBytes-- },
		"bad digest":    func(r *executor.ObjectRef) { r.SHA256 = "../../etc" },
		"parent path":   func(r *executor.ObjectRef) { r.Path = "../out" },
		"absolute path": func(r *executor.ObjectRef) { r.Path = "/etc/passwd" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := newStore(t, 0)
			ref := p.Put("a", []byte("data"))
			change(&ref)
			require.ErrorIs(t, s.Copy(t.Context(), key(), ref, t.TempDir()), executor.ErrPermanent)
		})
	}
}

func TestStore_Copy_isIndependentOfCache(t *testing.T) {
	t.Parallel()
	s, p, dir := newStore(t, 0)
	ref := p.Put("sub/a", []byte("data"))
	to := t.TempDir()
	require.NoError(t, s.Copy(t.Context(), key(), ref, to))
	require.NoError(t, os.WriteFile(filepath.Join(to, "sub", "a"), []byte("DATA"), 0o600))
	raw, err := os.ReadFile(filepath.Join(dir, ref.SHA256))
	require.NoError(t, err)
	require.Equal(t, "data", string(raw))
}

func TestStore_Copy_damagedObjectIsFetchedAgain(t *testing.T) {
	t.Parallel()
	for _, unpack := range []bool{false, true} {
		s, p, dir := newStore(t, 0)
		data := executortest.Tar(t, map[string]string{"x": "y"})
		ref := p.Put("a.tar", data)
		ref.Unpack = unpack
		require.NoError(t, s.Copy(t.Context(), key(), ref, t.TempDir()))
		require.NoError(t, os.WriteFile(filepath.Join(dir, ref.SHA256), bytes.Repeat([]byte("z"), len(data)), 0o600))
		require.NoError(t, s.Copy(t.Context(), key(), ref, t.TempDir()))
		require.Equal(t, 2, p.Fetched(ref))
	}
}

func TestStore_Link_survivesTrim(t *testing.T) {
	t.Parallel()
	s, p, dir := newStore(t, 10)
	ref := p.Put("a", []byte("data"))
	to := t.TempDir()
	require.NoError(t, s.Link(t.Context(), key(), ref, to))
	require.NoError(t, s.Link(t.Context(), key(), ref, to), "a second call must succeed, as after a restart")
	for i := range 3 {
		_, err := s.Fetch(t.Context(), key(), p.Put("other"+strconv.Itoa(i), []byte("other"+strconv.Itoa(i))))
		require.NoError(t, err)
	}
	require.NoFileExists(t, filepath.Join(dir, ref.SHA256), "the cache must be trimmed")
	require.FileExists(t, filepath.Join(to, "a"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestUnpack_disallowedEntries(t *testing.T) {
	t.Parallel()
	file := func(name string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}
	}
	for name, header := range map[string]*tar.Header{
		"parent":     file("../x"),
		"absolute":   file("/x"),
		"deep":       file(strings.Repeat("d/", 40) + "x"),
		"symlink":    {Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		"hard link":  {Name: "x", Typeflag: tar.TypeLink, Linkname: "y"},
		"device":     {Name: "x", Typeflag: tar.TypeChar},
		"named pipe": {Name: "x", Typeflag: tar.TypeFifo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			require.NoError(t, w.WriteHeader(header))
			if header.Size > 0 {
				_, err := w.Write([]byte("x"))
				require.NoError(t, err)
			}
			require.NoError(t, w.Close())
			dir := t.TempDir()
			require.ErrorIs(t, objcache.Unpack(&out, filepath.Join(dir, "in"), 1<<20), objcache.ErrArchive)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "no file may be created outside of the folder")
		})
	}
}

func TestUnpack_largerThanObject(t *testing.T) {
	t.Parallel()
	data := executortest.Tar(t, map[string]string{"x": strings.Repeat("y", 1000)})
	require.ErrorIs(t, objcache.Unpack(bytes.NewReader(data), t.TempDir(), 999), objcache.ErrArchive)
	require.ErrorIs(t, objcache.Unpack(strings.NewReader(strings.Repeat("no tar", 200)), t.TempDir(), 1<<20), objcache.ErrArchive)
}

// This test is not parallel, because all tests of the process share the umask.
func TestStore_CopyReadable_anyUserMayRead(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	s, p, _ := newStore(t, 0)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, mode := range map[string]int64{"data": 0o600, "sub/program": 0o700} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: 1}))
		_, err := w.Write([]byte("x"))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	packed := p.Put("packed.tar", archive.Bytes())
	packed.Unpack = true
	to := t.TempDir()
	require.NoError(t, s.CopyReadable(t.Context(), key(), p.Put("one", []byte("1")), to))
	require.NoError(t, s.CopyReadable(t.Context(), key(), packed, to))
	for name, want := range map[string]os.FileMode{"one": 0o644, "data": 0o644, "sub/program": 0o755} {
		info, err := os.Stat(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode(), name)
	}
}

func FuzzUnpackStaysInside(f *testing.F) {
	f.Add([]byte("no tar"))
	var seed bytes.Buffer
	w := tar.NewWriter(&seed)
	_ = w.WriteHeader(&tar.Header{Name: "a/b", Typeflag: tar.TypeReg, Mode: 0o700, Size: 1})
	_, _ = w.Write([]byte("x"))
	_ = w.Close()
	f.Add(seed.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		outside := t.TempDir()
		_ = objcache.Unpack(bytes.NewReader(data), filepath.Join(outside, "in"), int64(len(data)))
		entries, err := os.ReadDir(outside)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}

func TestWriteTree_writtenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree := fstest.MapFS{"signalbox/__init__.py": {Data: []byte("x = 1\n")}}
	to, err := objcache.WriteTree(tree, dir)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(to, "signalbox", "__init__.py"))
	again, err := objcache.WriteTree(tree, dir)
	require.NoError(t, err)
	require.Equal(t, to, again)
	tree["signalbox/__init__.py"].Data = []byte("x = 2\n")
	other, err := objcache.WriteTree(tree, dir)
	require.NoError(t, err)
	require.NotEqual(t, to, other)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "no temporary folder may be left")
}

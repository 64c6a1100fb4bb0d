package objcache_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/objcache"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

func withClock(t *testing.T, maxBytes int64) (*objcache.Store, *executortest.ControlPlane, string, *clock.Fake) {
	t.Helper()
	dir, p := t.TempDir(), executortest.NewControlPlane(t)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	return objcache.NewStore(dir, maxBytes, p, clk), p, dir, clk
}

func fetch(t *testing.T, s *objcache.Store, ref executor.ObjectRef) {
	t.Helper()
	_, err := s.Fetch(t.Context(), key(), ref)
	require.NoError(t, err)
}

func TestStore_OnFreed_bytesOfRemovedObjects(t *testing.T) {
	t.Parallel()
	s, p, _, clk := withClock(t, 10)
	var freed []int64
	s.OnFreed(func(_ context.Context, bytes int64) { freed = append(freed, bytes) })
	for _, text := range []string{"aaaa", "bbbb", "cccc", "dddddddd"} {
		ref := p.Put(text, []byte(text))
		fetch(t, s, ref)
		fetch(t, s, ref)
		clk.Advance(time.Minute)
	}
	require.Equal(t, []int64{4, 8}, freed)
}

func TestStore_trim_leastRecentlyUsed(t *testing.T) {
	t.Parallel()
	s, p, dir, clk := withClock(t, 10)
	var refs []executor.ObjectRef
	for _, text := range []string{"aaaa", "bbbb"} {
		ref := p.Put(text, []byte(text))
		fetch(t, s, ref)
		// The kernel sets the time of a new file. A fetch from the cache sets it to the time of the fake clock.
		fetch(t, s, ref)
		clk.Advance(time.Minute)
		refs = append(refs, ref)
	}
	fetch(t, s, refs[0]) // Use the older object again.
	third := p.Put("c", []byte("cccc"))
	fetch(t, s, third)
	require.NoFileExists(t, filepath.Join(dir, refs[1].SHA256))
	require.FileExists(t, filepath.Join(dir, refs[0].SHA256))
	require.FileExists(t, filepath.Join(dir, third.SHA256))
	fetch(t, s, refs[1])
	require.Equal(t, 2, p.Fetched(refs[1]), "the removed object must be fetched again")
}

func TestStore_trim_limit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bound int64
		kept  bool
	}{
		"exact size":     {8, true},
		"one byte less":  {7, false},
		"no limit":       {0, true},
		"negative limit": {-1, true},
	} {
		s, p, dir, _ := withClock(t, c.bound)
		first := p.Put("a", []byte("aaaa"))
		fetch(t, s, first)
		fetch(t, s, p.Put("b", []byte("bbbb")))
		_, err := os.Stat(filepath.Join(dir, first.SHA256))
		require.Equal(t, c.kept, err == nil, name)
	}
}

func TestStore_Copy_objectLargerThanCache(t *testing.T) {
	t.Parallel()
	s, p, dir, _ := withClock(t, 3)
	ref := p.Put("a", []byte("more than three"))
	to := t.TempDir()
	require.NoError(t, s.Copy(t.Context(), key(), ref, to))
	require.FileExists(t, filepath.Join(to, "a"))
	require.FileExists(t, filepath.Join(dir, ref.SHA256))
}

func TestStore_trim_abandonedDownloads(t *testing.T) {
	t.Parallel()
	s, p, dir, clk := withClock(t, 100)
	part := filepath.Join(dir, strings.Repeat("a", 64)+".part-1")
	require.NoError(t, os.WriteFile(part, []byte("half"), 0o600))
	require.NoError(t, os.Chtimes(part, clk.Now(), clk.Now()))
	clk.Advance(24 * time.Hour)
	fetch(t, s, p.Put("a", []byte("a")))
	require.FileExists(t, part, "a partial download that may still be in progress must be kept")
	clk.Advance(10 * time.Minute)
	fetch(t, s, p.Put("b", []byte("b")))
	require.NoFileExists(t, part)
}

func TestStore_Fetch_incompleteFileIsReplaced(t *testing.T) {
	t.Parallel()
	s, p, dir, _ := withClock(t, 0)
	ref := p.Put("a", []byte("data"))
	for _, text := range []string{"", "dat", "data and more"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ref.SHA256), []byte(text), 0o600))
		fetch(t, s, ref)
		raw, err := os.ReadFile(filepath.Join(dir, ref.SHA256))
		require.NoError(t, err)
		require.Equal(t, "data", string(raw))
	}
}

// source is a Downloader that calls a function.
type source func(ctx context.Context) (io.ReadCloser, error)

func (source) Expect(executor.Key, []executor.ObjectRef) (done func()) { return func() {} }

func (s source) Download(ctx context.Context, _ executor.Key, _ executor.ObjectRef) (io.ReadCloser, error) {
	return s(ctx)
}

func (source) DownloadTogether(
	context.Context, executor.Key, []executor.ObjectRef, func(executor.ObjectRef, io.Reader) error,
) error {
	return executor.ErrApart
}

// endless is a reader that never ends. It counts the bytes read.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read += int64(len(p))
	return len(p), nil
}

func TestStore_Fetch_endlessDownload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	body := &endless{}
	s := objcache.NewStore(dir, 0, source(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(body), nil }), clock.Real())
	_, err := s.Fetch(t.Context(), key(), executor.ObjectRef{URI: "u", SizeBytes: 1000, SHA256: strings.Repeat("a", 64)})
	require.ErrorIs(t, err, objcache.ErrMismatch)
	require.ErrorIs(t, err, executor.ErrPermanent)
	require.LessOrEqual(t, body.read, int64(64<<10), "the download must not be read past the size of the object")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestStore_Fetch_canceledCallerDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	p := executortest.NewControlPlane(t)
	ref := p.Put("a", []byte("data"))
	leaving, leave := context.WithCancel(t.Context())
	requests := make(chan struct{}, 8)
	s := objcache.NewStore(t.TempDir(), 0, source(func(ctx context.Context) (io.ReadCloser, error) {
		requests <- struct{}{}
		if ctx == leaving { //nolint:err113 // compares identity
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return p.Download(ctx, key(), ref)
	}), clock.Real())
	var wg sync.WaitGroup
	first, second := make(chan error, 1), make(chan error, 1)
	wg.Go(func() { _, err := s.Fetch(leaving, key(), ref); first <- err })
	<-requests
	wg.Go(func() { _, err := s.Fetch(t.Context(), key(), ref); second <- err })
	leave()
	wg.Wait()
	require.ErrorIs(t, <-first, context.Canceled)
	require.NoError(t, <-second)
}

func TestStore_Fetch_downloadError(t *testing.T) {
	t.Parallel()
	cause := errors.New("the object store is unavailable")
	s := objcache.NewStore(t.TempDir(), 0, source(func(context.Context) (io.ReadCloser, error) { return nil, cause }), clock.Real())
	ref := executor.ObjectRef{URI: "u", SizeBytes: 1, SHA256: strings.Repeat("a", 64)}
	_, err := s.Fetch(t.Context(), key(), ref)
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, executor.ErrPermanent)
}

func TestStore_Link_changedBytesAreFetchedAgain(t *testing.T) {
	t.Parallel()
	s, p, dir, _ := withClock(t, 0)
	ref := p.Put("model", []byte("weights"))
	first, second := t.TempDir(), t.TempDir()
	require.NoError(t, s.Link(t.Context(), key(), ref, first))
	// The files are links to the cache, so writing to one changes the cache as well.
	require.NoError(t, os.WriteFile(filepath.Join(first, "model"), []byte("WEIGHTS"), 0o600))
	require.NoError(t, s.Link(t.Context(), key(), ref, second))
	raw, err := os.ReadFile(filepath.Join(second, "model"))
	require.NoError(t, err)
	require.Equal(t, "weights", string(raw), "the second engine must not get the bytes written by the first")
	require.Equal(t, 2, p.Fetched(ref))
	require.FileExists(t, filepath.Join(dir, ref.SHA256))
}

func TestStore_Copy_worksGetSeparateCopies(t *testing.T) {
	t.Parallel()
	s, p, _, _ := withClock(t, 0)
	ref := p.Put("a", []byte("data"))
	one, two := t.TempDir(), t.TempDir()
	require.NoError(t, s.Copy(t.Context(), key(), ref, one))
	require.NoError(t, s.Copy(t.Context(), key(), ref, two))
	require.NoError(t, os.WriteFile(filepath.Join(one, "a"), []byte("DATA"), 0o600))
	raw, err := os.ReadFile(filepath.Join(two, "a"))
	require.NoError(t, err)
	require.Equal(t, "data", string(raw))
	info, err := os.Stat(filepath.Join(one, "a"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestStore_Link_replacesFile(t *testing.T) {
	t.Parallel()
	s, p, dir, _ := withClock(t, 0)
	ref := p.Put("sub/a", []byte("data"))
	to := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(to, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(to, "sub", "a"), []byte("rest of a killed agent"), 0o600))
	require.NoError(t, s.Link(t.Context(), key(), ref, to))
	cached, err := os.Stat(filepath.Join(dir, ref.SHA256))
	require.NoError(t, err)
	linked, err := os.Stat(filepath.Join(to, "sub", "a"))
	require.NoError(t, err)
	require.True(t, os.SameFile(cached, linked), "the file must be a link to the cached file")
}

func TestWriteTree_concurrent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree := fstest.MapFS{}
	for _, name := range []string{"a.py", "b/c.py", "b/d.py"} {
		tree[name] = &fstest.MapFile{Data: []byte(name)}
	}
	var wg sync.WaitGroup
	places := make(chan string, 8)
	for range 8 {
		wg.Go(func() {
			to, err := objcache.WriteTree(tree, dir)
			if err != nil {
				t.Errorf("write: %v", err)
			}
			places <- to
		})
	}
	wg.Wait()
	close(places)
	for to := range places {
		for name := range tree {
			require.FileExists(t, filepath.Join(to, name))
		}
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestWriteTree_digestOfNamesAndBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(files map[string]string) string {
		tree := fstest.MapFS{}
		for name, text := range files {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
		to, err := objcache.WriteTree(tree, dir)
		require.NoError(t, err)
		return to
	}
	first := write(map[string]string{"a": "1", "b": "2"})
	require.NotEqual(t, first, write(map[string]string{"a": "2", "b": "1"}))
	require.NotEqual(t, first, write(map[string]string{"a": "1", "c": "2"}))
	require.NotEqual(t, first, write(map[string]string{"a": "1"}))
	require.Equal(t, first, write(map[string]string{"b": "2", "a": "1"}))
}

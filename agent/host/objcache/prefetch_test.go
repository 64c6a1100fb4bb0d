package objcache_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

func TestStore_Prefetch_oneRequestForMissingObjects(t *testing.T) {
	t.Parallel()
	s, p, dir := newStore(t, 0)
	cached, a, b := p.Put("cached", []byte("cached")), p.Put("a", []byte("text a")), p.Put("b", []byte("text b"))
	same := p.Put("same", []byte("text b"))
	bad := a
	bad.SHA256 = "../../etc"
	_, err := s.Fetch(t.Context(), key(), cached)
	require.NoError(t, err)
	require.NoError(t, s.Prefetch(t.Context(), key(), []executor.ObjectRef{cached, a, bad, b, same}))
	require.Equal(t, 1, p.Together())
	require.Equal(t, 1, p.Fetched(cached), "a cached object must not be fetched again")
	require.Zero(t, p.Fetched(same), "the same bytes must be fetched once")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "no partial download may be left")
	to := t.TempDir()
	for _, ref := range []executor.ObjectRef{cached, a, b, same} {
		require.NoError(t, s.Copy(t.Context(), key(), ref, to))
	}
	raw, err := os.ReadFile(filepath.Join(to, "same"))
	require.NoError(t, err)
	require.Equal(t, "text b", string(raw))
	require.Equal(t, 1, p.Fetched(a)+p.Fetched(b)-1, "Copy must use the objects that were fetched together")
}

func TestStore_Prefetch_verifiesEachObject(t *testing.T) {
	t.Parallel()
	s, p, dir := newStore(t, 0)
	a, broken, c := p.Put("a", []byte("text a")), p.Put("b", []byte("text b")), p.Put("c", []byte("text c"))
	wrong := c
	wrong.SHA256 = strings.Repeat("0", 64)
	require.NoError(t, s.Prefetch(t.Context(), key(), []executor.ObjectRef{a, wrong}), "Prefetch must leave the report of the wrong object to Copy")
	require.ErrorIs(t, s.Copy(t.Context(), key(), wrong, t.TempDir()), executor.ErrPermanent)
	require.NoFileExists(t, filepath.Join(dir, wrong.SHA256))
	p.FailDownloads(broken, 1)
	require.ErrorContains(t, s.Prefetch(t.Context(), key(), []executor.ObjectRef{broken, c}), "only 3 of 6 bytes")
	require.NoFileExists(t, filepath.Join(dir, broken.SHA256))
	require.NoError(t, s.Copy(t.Context(), key(), broken, t.TempDir()), "Copy must fetch the object by itself")
}

func TestStore_Prefetch_worksShareDownload(t *testing.T) {
	t.Parallel()
	s, p, _ := newStore(t, 0)
	refs := []executor.ObjectRef{p.Put("a", []byte("text a")), p.Put("b", []byte("text b"))}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Prefetch(t.Context(), key(), refs); err != nil {
				t.Errorf("prefetch: %v", err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, p.Fetched(refs[0]))
	require.Equal(t, 1, p.Fetched(refs[1]))
}

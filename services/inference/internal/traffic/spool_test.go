package traffic

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSegments(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := NewSpool(dir, ids())
	require.NoError(t, err)
	want := testCalls(3, time.Now())
	first, second := s.Name(), s.Name()
	require.NoError(t, s.Append(first, want[:1]))
	require.NoError(t, s.Append(second, want[1:2]))
	names, err := s.Segments()
	require.NoError(t, err)
	require.Equal(t, []string{first}, names, "Append must use the open segment")
	third := s.Name()
	require.NoError(t, s.Append(third, want[2:]))
	names, err = s.Segments()
	require.NoError(t, err)
	require.Equal(t, []string{first, third}, names, "Segments must close the open segment and return the oldest first")
	got, unread, err := s.Read(first)
	require.NoError(t, err)
	require.Zero(t, unread)
	require.Equal(t, want[:2], got)
	require.Error(t, s.Write(first, want), "writing a second segment with the same name must fail")
	require.NoError(t, s.Remove(first))
	require.Error(t, s.Remove(first))
	_, _, err = s.Read(first)
	require.Error(t, err)
	require.NoError(t, s.Close())
}

func TestSpool_Read_damagedSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := NewSpool(dir, ids())
	require.NoError(t, err)
	require.NoError(t, s.Write("x", testCalls(3, time.Now())))
	whole, err := os.ReadFile(s.path("x"))
	require.NoError(t, err)
	for cut := range len(whole) {
		require.NoError(t, os.WriteFile(s.path("x"), whole[:cut], 0o600))
		calls, unread, err := s.Read("x")
		require.NoError(t, err)
		require.Zero(t, unread, "a truncated last line must not be counted")
		require.LessOrEqual(t, len(calls), 2)
	}
	require.NoError(t, os.WriteFile(s.path("x"), append([]byte("spoiled\n"), whole...), 0o600))
	calls, unread, err := s.Read("x")
	require.NoError(t, err)
	require.Equal(t, 1, unread)
	require.Len(t, calls, 3)
}

func TestSpoolClosesLargeSegment(t *testing.T) {
	t.Parallel()
	s, err := NewSpool(t.TempDir(), ids())
	require.NoError(t, err)
	for range 40 {
		require.NoError(t, s.Append(s.Name(), testCalls(500, time.Now())))
	}
	names, err := s.Segments()
	require.NoError(t, err)
	require.Greater(t, len(names), 1)
	for _, name := range names {
		info, err := os.Stat(s.path(name))
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(segmentMax+1<<20))
	}
}

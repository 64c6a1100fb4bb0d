package localfile_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

func TestReserve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := localfile.Reserve{Path: filepath.Join(dir, "reserve"), Bytes: 8 << 20}
	require.NoError(t, r.Release(), "a missing file is not an error")
	requireState(t, r, false, false)
	for range 2 {
		require.NoError(t, r.Take())
		requireState(t, r, true, true)
	}
	for range 2 {
		require.NoError(t, r.Release())
		requireState(t, r, true, false)
	}
	free, err := localfile.Available(dir)
	require.NoError(t, err)
	require.Positive(t, free)
	_, err = localfile.Available(filepath.Join(dir, "missing"))
	require.ErrorContains(t, err, "read the free space")
}

func requireState(t *testing.T, r localfile.Reserve, exists, held bool) {
	t.Helper()
	e, h, err := r.State()
	require.NoError(t, err)
	require.Equal(t, []bool{exists, held}, []bool{e, h})
}

func TestReserve_Take_tooLarge(t *testing.T) {
	t.Parallel()
	r := localfile.Reserve{Path: filepath.Join(t.TempDir(), "reserve"), Bytes: 1 << 60}
	require.ErrorContains(t, r.Take(), "allocate the reserve")
	requireState(t, r, true, false)
	r.Path = filepath.Join(filepath.Dir(r.Path), "missing", "reserve")
	require.ErrorContains(t, r.Take(), "create the reserve")
}

package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

func tarOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(name))}))
		_, err := w.Write([]byte(name))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// stage returns the stage of a tar file that was downloaded.
func (h *harness) stage(data []byte) (*Stage, File) {
	h.t.Helper()
	f := File{Path: "model.tar", Size: int64(len(data)), SHA256: digest(string(data))}
	s, err := NewStage(h.root, f.SHA256)
	require.NoError(h.t, err)
	h.t.Cleanup(s.Close)
	require.NoError(h.t, s.Root.WriteFile(f.Path, data, 0o600))
	return s, f
}

func ignore(int64) {}

func TestStage_Unpack(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	s, f := h.stage(tarOf(t, "b", "sub/a"))
	require.NoError(t, h.root.WriteFile("b", []byte("of an earlier version"), 0o600))
	require.NoError(t, s.Root.MkdirAll("files/left", 0o700))
	require.NoError(t, s.Root.WriteFile("files/left/over", []byte("of an earlier try"), 0o600))
	files, err := s.Unpack(t.Context(), f, ignore)
	require.NoError(t, err)
	want := []File{{Path: "b", Size: 1, SHA256: digest("b")}, {Path: "sub/a", Size: 5, SHA256: digest("sub/a")}}
	require.Equal(t, want, files)
	found := h.files()
	require.Len(t, found, 3)
	require.Equal(t, "b", found["b"])
	require.Equal(t, "sub/a", found["sub/a"])
	require.Contains(t, found, Listing)

	same, ok := Unpacked(h.root, f.SHA256)
	require.True(t, ok)
	require.Equal(t, want, same)
	_, ok = Unpacked(h.root, digest("another version"))
	require.False(t, ok)
	require.NoError(t, h.root.WriteFile("b", []byte("x"), 0o600))
	_, ok = Unpacked(h.root, f.SHA256)
	require.False(t, ok, "a file was changed")
	require.NoError(t, h.root.WriteFile(Listing, []byte("{"), 0o600))
	_, ok = Unpacked(h.root, f.SHA256)
	require.False(t, ok)
}

func TestStage_Unpack_refusals(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	s, f := h.stage(tarOf(t, "b", "../c"))
	_, err := s.Unpack(t.Context(), f, ignore)
	require.ErrorIs(t, err, archive.ErrUnpack)
	require.Empty(t, h.files())
	require.NoFileExists(t, filepath.Join(filepath.Dir(h.dir), "c"))
}

func TestStage_Unpack_interrupted(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	data := tarOf(t, strings.Repeat("n", 200))
	s, f := h.stage(data)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Unpack(ctx, f, ignore)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, h.files(), 1, "the tar file stays for the next command")
	s.Close()
	s, err = NewStage(h.root, f.SHA256)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.True(t, Exists(s.Root, f))
	_, err = s.Unpack(t.Context(), f, ignore)
	require.NoError(t, err)
}

func TestStage_Unpack_busy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	s, f := h.stage(tarOf(t, "b"))
	other, err := NewStage(h.root, f.SHA256)
	require.NoError(t, err)
	t.Cleanup(other.Close)
	_, err = s.Unpack(t.Context(), f, func(int64) {
		_, err := other.Unpack(t.Context(), f, ignore)
		require.ErrorIs(t, err, ErrBusy)
	})
	require.NoError(t, err)
}

func TestStage_Close_removesEmptyFolder(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ranged)
	s, err := NewStage(h.root, digest("x"))
	require.NoError(t, err)
	s.Close()
	entries, err := os.ReadDir(h.dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestProgress_Work(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &Progress{Out: &out}
	for _, size := range []int64{large - 1, large} {
		count, end := p.Work("digest of a", size)
		for have := range int64(11) {
			count((size*have + 9) / 10)
		}
		end(true)
	}
	require.Equal(t, 9, strings.Count(out.String(), "digest of a: "), "only the large file has lines, and none at its end: %s", &out)
	require.Contains(t, out.String(), "digest of a: 50% of 64.0 MiB\n")
}

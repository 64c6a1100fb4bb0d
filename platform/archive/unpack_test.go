package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

func tarWith(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write(make([]byte, h.Size))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestUnpack_modes(t *testing.T) {
	t.Parallel()
	data := tarWith(t, tar.Header{Name: "a/file", Typeflag: tar.TypeReg, Mode: 0o4644, Size: 3}, tar.Header{Name: "a/program", Typeflag: tar.TypeReg, Mode: 0o755})
	dir := filepath.Join(t.TempDir(), "in")
	require.NoError(t, archive.Unpack(bytes.NewReader(data), dir, int64(len(data)), archive.Modes{File: 0o666, Program: 0o777, Folder: 0o700}))
	for name, want := range map[string]os.FileMode{"file": 0o666, "program": 0o777} {
		info, err := os.Stat(filepath.Join(dir, "a", name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode(), "the umask does not apply")
	}
	dir = filepath.Join(t.TempDir(), "in")
	require.NoError(t, archive.Unpack(bytes.NewReader(data), dir, int64(len(data)), archive.Modes{File: 0o666, Program: 0o777, Folder: 0o777, Umask: true}))
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o666))
	want, err := os.Stat(plain)
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, "a", "file"))
	require.NoError(t, err)
	require.Equal(t, want.Mode(), info.Mode(), "the umask applies")
}

func TestUnpack_refusals(t *testing.T) {
	t.Parallel()
	file := tar.Header{Name: "a", Typeflag: tar.TypeReg, Mode: 0o644, Size: 600}
	link := tar.Header{Name: "b", Typeflag: tar.TypeSymlink, Linkname: "a"}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write(tarWith(t, file, tar.Header{Name: "large", Typeflag: tar.TypeReg, Mode: 0o644, Size: 40 << 20}))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for name, c := range map[string]struct {
		data []byte
		size int64
	}{
		"link":      {tarWith(t, file, link), 1 << 20},
		"size":      {tarWith(t, file, tar.Header{Name: "b", Typeflag: tar.TypeReg, Size: 401}), 1000},
		"cut off":   {tarWith(t, file)[:700], 1 << 20},
		"gzip bomb": {zipped.Bytes(), 100},
	} {
		err := archive.Unpack(bytes.NewReader(c.data), t.TempDir(), c.size, archive.Modes{File: 0o600, Program: 0o700, Folder: 0o700})
		require.ErrorIs(t, err, archive.ErrUnpack, name)
	}
}

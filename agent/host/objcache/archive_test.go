package objcache_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/objcache"
	"github.com/signalbox-dev/signalbox/test/executortest"
)

// entry is one entry of an archive.
type entry struct {
	tar.Header
	body string
}

func regular(name, body string) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(body))}, body: body}
}

func folder(name string) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}}
}

func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		require.NoError(t, w.WriteHeader(&e.Header))
		_, err := w.Write([]byte(e.body))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// unpack unpacks the archive into the folder `in`. It checks that nothing outside the folder changes.
func unpack(t *testing.T, data []byte, maxBytes int64) (in string, err error) {
	t.Helper()
	outside := t.TempDir()
	in = filepath.Join(outside, "in")
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("mine"), 0o600))
	err = objcache.Unpack(bytes.NewReader(data), in, maxBytes)
	raw, readErr := os.ReadFile(filepath.Join(outside, "secret"))
	require.NoError(t, readErr)
	require.Equal(t, "mine", string(raw), "no file outside of the folder may change")
	entries, readErr := os.ReadDir(outside)
	require.NoError(t, readErr)
	require.Len(t, entries, 2, "no file may be created outside of the folder")
	return in, err
}

func TestUnpack_entriesOutsideFolderRejected(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]entry{
		"parent folder":             regular("..", "x"),
		"parent through subfolder":  regular("a/../../secret", "x"),
		"parent through subfolders": regular("a/b/../../../secret", "x"),
		"two leading slashes":       regular("//secret", "x"),
		"folder in the parent":      folder("../sub/"),
		"symlink outside":           {Header: tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../secret"}},
		"symlink inside":            {Header: tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a"}},
		"hard link outside":         {Header: tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../secret"}},
		"block device":              {Header: tar.Header{Name: "d", Typeflag: tar.TypeBlock, Devmajor: 8}},
		"contiguous file":           {Header: tar.Header{Name: "c", Typeflag: tar.TypeCont}},
		"file with empty name":      {Header: tar.Header{Name: "", Typeflag: tar.TypeReg, Size: 1, Mode: 0o600}, body: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := unpack(t, pack(t, regular("before", "1"), e), 1<<20)
			require.Error(t, err)
		})
	}
}

func TestUnpack_unusualNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []entry
		want    map[string]string
	}{
		"parent inside":             {[]entry{regular("a/../b", "x")}, map[string]string{"b": "x"}},
		"leading dots":              {[]entry{regular("./././b", "x")}, map[string]string{"b": "x"}},
		"three dots":                {[]entry{regular(".../b", "x")}, map[string]string{".../b": "x"}},
		"backslash":                 {[]entry{regular(`..\b`, "x")}, map[string]string{`..\b`: "x"}},
		"duplicate name":            {[]entry{regular("b", "first"), regular("b", "2nd")}, map[string]string{"b": "2nd"}},
		"names that differ by case": {[]entry{regular("b", "x"), regular("B", "y")}, map[string]string{"b": "x", "B": "y"}},
		"folder before its file":    {[]entry{folder("d/"), regular("d/b", "x")}, map[string]string{"d/b": "x"}},
		"file before its folder":    {[]entry{regular("d/b", "x"), folder("d/")}, map[string]string{"d/b": "x"}},
		"long name":                 {[]entry{regular(strings.Repeat("n", 250), "x")}, map[string]string{strings.Repeat("n", 250): "x"}},
		"empty file":                {[]entry{regular("e", "")}, map[string]string{"e": ""}},
		"empty archive":             {nil, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, err := unpack(t, pack(t, c.entries...), 1<<20)
			require.NoError(t, err)
			got := map[string]string{}
			require.NoError(t, filepath.WalkDir(in, func(path string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				raw, err := os.ReadFile(path)
				rel, _ := filepath.Rel(in, path)
				got[rel] = string(raw)
				return err
			}))
			require.Equal(t, c.want, got)
		})
	}
}

func TestUnpack_fileAndFolderOfSameName(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]entry{
		"file replaces folder": {regular("d/x", "1"), regular("d", "2")},
		"folder replaces file": {regular("d", "2"), folder("d/")},
		"path through a file":  {regular("d", "2"), regular("d/x", "1")},
	} {
		_, err := unpack(t, pack(t, entries...), 1<<20)
		require.Error(t, err, name)
	}
}

func TestUnpack_modes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[int64]os.FileMode{
		0o644: 0o600, 0o755: 0o700, 0o100: 0o700, 0o4777: 0o700, 0o2755: 0o700, 0o1666: 0o600, 0o011: 0o600, 0: 0o600,
	} {
		e := regular("sub/x", "1")
		e.Mode = mode
		in, err := unpack(t, pack(t, e), 1<<20)
		require.NoError(t, err)
		info, err := os.Stat(filepath.Join(in, "sub", "x"))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode(), "mode %o", mode)
		info, err = os.Stat(filepath.Join(in, "sub"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
}

func TestUnpack_byteLimit(t *testing.T) {
	t.Parallel()
	data := pack(t, regular("a", strings.Repeat("x", 600)), regular("b", strings.Repeat("y", 400)))
	_, err := unpack(t, data, 1000)
	require.NoError(t, err, "an archive at the limit must be unpacked")
	in, err := unpack(t, data, 999)
	require.ErrorIs(t, err, objcache.ErrArchive, "an archive one byte over the limit must be rejected")
	require.NoFileExists(t, filepath.Join(in, "b"), "the entry over the limit must not be written")
	_, err = unpack(t, data, 0)
	require.ErrorIs(t, err, objcache.ErrArchive)
}

func TestUnpack_depthLimit(t *testing.T) {
	t.Parallel()
	at := strings.Repeat("d/", 31) + "x"
	in, err := unpack(t, pack(t, regular(at, "1")), 1<<20)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(in, at))
	_, err = unpack(t, pack(t, regular("d/"+at, "1")), 1<<20)
	require.ErrorIs(t, err, objcache.ErrArchive)
}

func TestUnpack_entryLimit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	// All entries but the last two are the same folder, so that the test does not fill the disk.
	h := folder("d/").Header
	for range 100_000 - 1 {
		require.NoError(t, w.WriteHeader(&h))
	}
	for _, name := range []string{"last", "over"} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600}))
	}
	require.NoError(t, w.Close())
	in, err := unpack(t, out.Bytes(), 1<<30)
	require.ErrorIs(t, err, objcache.ErrArchive)
	require.ErrorContains(t, err, "100000 entries")
	require.FileExists(t, filepath.Join(in, "last"), "the entry at the limit must be unpacked")
	require.NoFileExists(t, filepath.Join(in, "over"))
}

func TestUnpack_brokenArchive(t *testing.T) {
	t.Parallel()
	whole := pack(t, regular("a", strings.Repeat("x", 2000)))
	for name, data := range map[string][]byte{
		"truncated header": whole[:100],
		"truncated file":   whole[:1000],
		"gzip":             append([]byte{0x1f, 0x8b, 8, 0}, bytes.Repeat([]byte{1}, 1020)...),
		"zip":              append([]byte("PK\x03\x04"), bytes.Repeat([]byte{1}, 1020)...),
		"wrong checksum":   bytes.Replace(whole, []byte("a\x00\x00"), []byte("b\x00\x00"), 1),
	} {
		_, err := unpack(t, data, 1<<20)
		require.ErrorIs(t, err, objcache.ErrArchive, name)
	}
}

func TestUnpack_falseSize(t *testing.T) {
	t.Parallel()
	// The header states a size of a terabyte, but the archive has only a few hundred bytes.
	e := regular("a", "x")
	e.Size = 1 << 40
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	require.NoError(t, w.WriteHeader(&e.Header))
	_, err := w.Write([]byte("x"))
	require.NoError(t, err)
	_, err = unpack(t, out.Bytes(), int64(out.Len()))
	require.ErrorIs(t, err, objcache.ErrArchive)
}

func TestUnpack_existingSymlinksNotFollowed(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	in := filepath.Join(outside, "in")
	require.NoError(t, os.MkdirAll(in, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("mine"), 0o600))
	require.NoError(t, os.Symlink("../secret", filepath.Join(in, "a")))
	require.NoError(t, os.Symlink("..", filepath.Join(in, "d")))
	for _, name := range []string{"a", "d/secret", "d/new"} {
		err := objcache.Unpack(bytes.NewReader(pack(t, regular(name, "theirs"))), in, 1<<20)
		require.Error(t, err, name)
	}
	raw, err := os.ReadFile(filepath.Join(outside, "secret"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(raw))
	require.NoFileExists(t, filepath.Join(outside, "new"))
}

func TestStore_Copy_badArchiveIsPermanent(t *testing.T) {
	t.Parallel()
	s, p, _ := newStore(t, 0)
	ref := p.Put("bad.tar", pack(t, regular("../x", "1")))
	ref.Unpack = true
	err := s.Copy(t.Context(), key(), ref, t.TempDir())
	require.ErrorIs(t, err, executor.ErrPermanent, "the error must be permanent, because a retry cannot fix the archive")
	require.ErrorIs(t, err, objcache.ErrArchive)
	require.Equal(t, 1, p.Fetched(ref))
}

func TestStore_Copy_archiveUnpackedInItsFolder(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"code.tar": "x", "sub/code.tar": "sub/x", ".": "x", "": "x"} {
		s, p, _ := newStore(t, 0)
		ref := p.Put("k"+strconv.Itoa(len(path)), executortest.Tar(t, map[string]string{"x": "y"}))
		ref.Path, ref.Unpack = path, true
		dir := t.TempDir()
		require.NoError(t, s.Copy(t.Context(), key(), ref, dir))
		require.FileExists(t, filepath.Join(dir, want), "path %q", path)
		require.NoError(t, s.Link(t.Context(), key(), ref, dir), "Link must unpack an archive")
	}
}

func TestUnpack_gzip(t *testing.T) {
	t.Parallel()
	packed := func(data []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(data)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	data := packed(pack(t, folder("a"), regular("a/b", "words")))
	in, err := unpack(t, data, int64(len(data)))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(in, "a", "b"))
	require.NoError(t, err)
	require.Equal(t, "words", string(got))
	bomb := packed(pack(t, regular("zeros", strings.Repeat("0", 16<<20))))
	_, err = unpack(t, bomb, int64(len(bomb)))
	require.ErrorIs(t, err, objcache.ErrArchive, "an archive that unpacks to more than 200 times its %d bytes must be rejected", len(bomb))
	for _, broken := range [][]byte{[]byte("\x1f\x8b"), data[:len(data)/2]} {
		_, err = unpack(t, broken, 1<<20)
		require.ErrorIs(t, err, objcache.ErrArchive)
	}
}

package command_test

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// filesBelow returns the names and contents of the files below a folder.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(raw)
		return err
	}))
	return out
}

const unpackedListing = ".signalbox-model.json"

func packedModel(t *testing.T) []byte {
	t.Helper()
	return tarFile(t, tar.Header{Name: "sub/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "sub/a.json", Typeflag: tar.TypeReg, Mode: 0o600, Size: 2}, tar.Header{Name: "model.safetensors", Typeflag: tar.TypeReg, Mode: 0o644, Size: 5})
}

func TestPullModel_unpacks(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	s.downloads, s.packed = map[string][]byte{"model.tar": packedModel(t)}, true
	dir := filepath.Join(t.TempDir(), "out")
	got := s.run("models", "pull", "llama@1", "--dir", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.err, "2 files, 7 B, in "+dir+", with the right digests\n")
	require.Equal(t, filepath.Join(dir, "model.safetensors")+"\n"+filepath.Join(dir, "sub", "a.json")+"\n", got.out)
	files := filesBelow(t, dir)
	require.Contains(t, files, unpackedListing)
	delete(files, unpackedListing)
	require.Equal(t, map[string]string{"model.safetensors": "xxxxx", "sub/a.json": "xx"}, files)

	s.requests = nil
	got = s.run("models", "pull", "llama@1", "--dir", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.err, "2 of them before")
	require.NotContains(t, s.requests, "GET /bytes/model.tar")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("y"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own.txt"), []byte("mine"), 0o600))
	got = s.run("models", "pull", "llama@1", "--dir", dir)
	require.Equal(t, 0, got.code, got.err)
	files = filesBelow(t, dir)
	require.Equal(t, "xxxxx", files["model.safetensors"])
	require.Equal(t, "mine", files["own.txt"])
	require.Len(t, files, 4)
}

func TestPullModel_packed(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	packed := packedModel(t)
	s.downloads, s.packed = map[string][]byte{"model.tar": packed}, true
	dir := filepath.Join(t.TempDir(), "out")
	got := s.run("models", "pull", "llama", "--dir", dir, "--packed")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, map[string]string{"model.tar": string(packed)}, filesBelow(t, dir))
	require.NotContains(t, strings.Join(s.requests, "\n"), "/files")
}

func TestPullModel_uploadedFiles(t *testing.T) {
	t.Parallel()
	s := newModelServer(t)
	s.downloads = map[string][]byte{"config.json": []byte("{}"), "sub/b/tokenizer.json": []byte("[]")}
	dir := filepath.Join(t.TempDir(), "out")
	got := s.run("models", "pull", "llama@1", "--dir", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, map[string]string{"config.json": "{}", "sub/b/tokenizer.json": "[]"}, filesBelow(t, dir))

	s.downloads = map[string][]byte{"model.tar": []byte("not unpacked, because it was uploaded as it is")}
	dir = filepath.Join(t.TempDir(), "tar")
	got = s.run("models", "pull", "llama@1", "--dir", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, filesBelow(t, dir), "model.tar")
}

func TestPullModel_corruptDownload(t *testing.T) {
	t.Parallel()
	for name, packed := range map[string]bool{"model.tar": true, "model.gguf": false} {
		s := newModelServer(t)
		s.corrupt, s.packed = true, packed
		s.downloads = map[string][]byte{name: packedModel(t)}
		dir := filepath.Join(t.TempDir(), "out")
		got := s.run("models", "pull", "llama@1", "--dir", dir)
		require.Equal(t, 1, got.code, got.err)
		require.Contains(t, got.err, "does not have the digest")
		require.Empty(t, filesBelow(t, dir))
	}
}

func TestPullModel_hostileFolder(t *testing.T) {
	t.Parallel()
	first := tar.Header{Name: "config.json", Typeflag: tar.TypeReg, Mode: 0o600, Size: 2}
	for name, h := range map[string]tar.Header{
		"parent":    {Name: "../escaped", Typeflag: tar.TypeReg, Mode: 0o600, Size: 1},
		"absolute":  {Name: "/escaped", Typeflag: tar.TypeReg, Mode: 0o600, Size: 1},
		"symlink":   {Name: "link", Typeflag: tar.TypeSymlink, Linkname: "../escaped"},
		"hard link": {Name: "link", Typeflag: tar.TypeLink, Linkname: "config.json"},
		"device":    {Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newModelServer(t)
			s.downloads, s.packed = map[string][]byte{"model.tar": tarFile(t, first, h)}, true
			above := t.TempDir()
			dir := filepath.Join(above, "out")
			got := s.run("models", "pull", "llama@1", "--dir", dir)
			require.Equal(t, 1, got.code, got.err)
			require.Contains(t, got.err, "the archive cannot be unpacked")
			require.Contains(t, got.err, "with --packed, the tar file is kept as it is")
			require.NoFileExists(t, filepath.Join(above, "escaped"))
			require.Empty(t, filesBelow(t, dir), "no file appears unless all are valid")
		})
	}
}

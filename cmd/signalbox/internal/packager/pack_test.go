package packager

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

// Folders with equal files have equal packages, whatever the times of the files, the order in which they were written, and the
// permissions that the umask has left.
func TestPack_isDeterministic(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewChaCha8([32]byte{3}))
	for range 8 {
		files := make([]example, 1+r.IntN(30))
		for i := range files {
			name := fmt.Sprintf("d%d/ü %d/%s%d.py", r.IntN(3), r.IntN(3), strings.Repeat("n", r.IntN(150)), i)
			files[i] = example{name, strings.Repeat(name+"\n", r.IntN(300))}
		}
		var first []byte
		for range 3 {
			r.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
			h := newHarness(t)
			umask := []fs.FileMode{0o022, 0o077, 0o002}[r.IntN(3)]
			for _, f := range files {
				mode := fs.FileMode(0o666)
				if len(f.text)%2 == 1 {
					mode = 0o777
				}
				h.putMode(f.name, f.text, mode&^umask)
				at := time.Unix(r.Int64N(2_000_000_000), r.Int64N(1_000_000_000))
				require.NoError(t, os.Chtimes(filepath.Join(h.dir, f.name), at, at))
			}
			data := h.packed()
			if first == nil {
				first = data
			}
			require.True(t, bytes.Equal(first, data), "the packages of equal folders differ")
		}
	}
}

func TestPack_differsWithTheFolder(t *testing.T) {
	t.Parallel()
	first := newHarness(t).put("a", "x").packed()
	require.NotEqual(t, first, newHarness(t).put("b", "x").packed())
	require.NotEqual(t, first, newHarness(t).put("a", "y").packed())
	require.NotEqual(t, first, newHarness(t).putMode("a", "x", 0o744).packed())
	require.Equal(t, first, newHarness(t).putMode("a", "x", 0o654).packed())
}

func TestPack_isWhatTheServerAccepts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long/", 30) + strings.Repeat("n", 200)
	h := newHarness(t).put("train.py", "print(1)\n").putMode("run.sh", "true\n", 0o755).put("conf/ü.yaml", "a: 1\n").put(long, "x")
	h.put("ignored.log", "x").put(".gitignore", "*.log\n").link("train.py", "main.py")
	require.NoError(t, os.Mkdir(filepath.Join(h.dir, "out"), 0o755))
	data := h.packed()
	facts, err := archive.Inspect(bytes.NewReader(data), int64(len(data)), 1<<20)
	require.NoError(t, err)
	l := h.list()
	require.Equal(t, archive.Facts{Entries: l.Packed, Bytes: l.Bytes}, facts)

	plain, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	members := map[string]string{}
	in := tar.NewReader(plain)
	for {
		m, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Zero(t, m.ModTime.Unix())
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		members[m.Name] = fmt.Sprintf("%o %s", m.Mode, text)
	}
	require.Equal(t, map[string]string{
		"train.py": "644 print(1)\n", "main.py": "644 print(1)\n", "run.sh": "755 true\n", "conf/ü.yaml": "644 a: 1\n", long: "644 x",
		".gitignore": "644 *.log\n", "out/": "755 ",
	}, members)
}

func TestPack_reportsFilesThatChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"content": func(path string) error { return os.WriteFile(path, []byte("B"), 0o600) },
		"longer":  func(path string) error { return os.WriteFile(path, []byte("ab"), 0o600) },
		"shorter": func(path string) error { return os.Truncate(path, 0) },
		"removed": os.Remove,
	} {
		h := newHarness(t).put("a", "a")
		l := h.list()
		require.NoError(t, change(filepath.Join(h.dir, "a")))
		err := l.Pack(t.Context(), io.Discard)
		if name == "removed" {
			require.ErrorIs(t, err, os.ErrNotExist)
		} else {
			require.ErrorIs(t, err, ErrChanged, name)
		}
		require.ErrorContains(t, err, "pack a: ")
	}
}

func TestPack_emptyFolder(t *testing.T) {
	t.Parallel()
	l := newHarness(t).list()
	require.ErrorIs(t, l.Pack(t.Context(), io.Discard), ErrEmpty)
}

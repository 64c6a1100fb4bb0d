package packager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

func TestList_exclusions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, name := range []string{
		"train.py", "a.log", "keep.log", "out/x.bin", "data/big.bin", "data/.gitkeep", "lib/gen/a.py", "lib/b.py", "lib/sub/c.tmp",
		"lib/sub/d.tmp",
		".git/config", "venv/x.py", ".venv/x.py", "node_modules/a.js", "lib/__pycache__/b.pyc", "my/pyvenv.cfg", "my/bin/python",
	} {
		h.put(name, "x")
	}
	h.put(".gitignore", "*.log\n!keep.log\nout/\n/lib/gen/\n")
	h.put(".signalboxignore", "data/*\n!data/.gitkeep\n!/venv/\n")
	h.put("lib/.gitignore", "*.tmp\n")
	h.put("lib/sub/.gitignore", "!c.tmp\n")
	l := h.list()
	require.NoError(t, l.Err())
	require.Equal(t, []string{
		".gitignore", ".signalboxignore", "data/.gitkeep", "keep.log", "lib/.gitignore", "lib/b.py", "lib/sub/.gitignore", "lib/sub/c.tmp",
		"train.py", "venv/x.py",
	}, l.sent())
	require.Equal(t, len(l.sent()), l.Packed)
	reasons := map[string]string{}
	for _, f := range l.Files {
		if f.Excluded != "" {
			reasons[f.Path] = f.Excluded
		}
	}
	require.Equal(t, map[string]string{
		".git/": "built in: .git", ".venv/": "built in: .venv/", "node_modules/": "built in: node_modules/",
		"my/":              "built in: virtual environment",
		"lib/__pycache__/": "built in: __pycache__/", "a.log": ".gitignore:1: *.log", "out/": ".gitignore:3: out/",
		"lib/gen/": ".gitignore:4: /lib/gen/", "data/big.bin": ".signalboxignore:1: data/*", "lib/sub/d.tmp": "lib/.gitignore:1: *.tmp",
	}, reasons)
}

// A pattern in .signalboxignore overrules one in .gitignore, of whatever folder. Nothing in an excluded folder is included.
func TestList_precedence(t *testing.T) {
	t.Parallel()
	h := newHarness(t).put("a/.gitignore", "*").put("a/x", "").put("a/y", "").put("b/c", "").put("b/.signalboxignore", "!c")
	h.put(".signalboxignore", "!a/x\nb/\n!b/c\n!.git\n").put(".git/config", "")
	require.Equal(t, []string{".signalboxignore", "a/x"}, h.list().sent())
}

func TestList_emptyFolders(t *testing.T) {
	t.Parallel()
	h := newHarness(t).put("logs/old.log", "x").put("src/a.py", "").put(".gitignore", "*.log\n")
	require.NoError(t, os.MkdirAll(filepath.Join(h.dir, "out", "deep"), 0o700))
	require.Equal(t, []string{".gitignore", "logs/", "out/deep/", "src/a.py"}, h.list().sent())
}

func TestList_links(t *testing.T) {
	t.Parallel()
	outside := newHarness(t).put("secret.txt", "x").put("folder/a", "x")
	h := newHarness(t).put("conf/base.yaml", "lr: 1\n").put("b/.env", "A=1").put(".gitignore", "/b/\n/ignored\n")
	h.link("conf/base.yaml", "now.yaml").link("now.yaml", "twice.yaml").link("b/.env", "settings")
	h.link(filepath.Join(outside.dir, "secret.txt"), "absolute").link("../"+filepath.Base(outside.dir)+"/secret.txt", "relative")
	h.link("nothing", "dangling").link("conf", "folder").link("loop", "loop").link("/etc/passwd", "ignored")
	h.link(filepath.Join(outside.dir, "folder"), "far").link("far/a", "through")
	l := h.list()
	require.Equal(t, []string{".gitignore", "conf/base.yaml", "now.yaml", "twice.yaml"}, l.sent())
	refused := map[string]string{}
	for _, r := range l.Refusals {
		refused[r.Path] = r.Rule
	}
	require.Equal(t, map[string]string{
		"absolute": "link out of the folder", "relative": "link out of the folder", "far": "link out of the folder",
		"through": "link out of the folder", "loop": "link that leads to itself", "folder": "link to a folder",
		"dangling": "link to a file that does not exist, or out of the folder", "settings": "link to b/.env: name .env*",
	}, refused)
}

func TestList_limits(t *testing.T) {
	t.Parallel()
	h := newHarness(t).put("a", "12345").put("b", "12345").put("ignored", "12345").put(".gitignore", "ignored")
	l, err := List(t.Context(), h.dir, Limits{Files: 3, Bytes: 17})
	require.NoError(t, err)
	require.Equal(t, int64(17), l.Bytes)
	_, err = List(t.Context(), h.dir, Limits{Files: 2, Bytes: 17})
	require.ErrorIs(t, err, ErrLimit)
	_, err = List(t.Context(), h.dir, Limits{Files: 3, Bytes: 16})
	require.ErrorIs(t, err, ErrLimit)
	h.put("sub/.gitignore", strings.Repeat("#", maxIgnoreFile+1))
	_, err = List(t.Context(), h.dir, DefaultLimits())
	require.ErrorContains(t, err, "sub/.gitignore has more than")
	_, err = List(t.Context(), filepath.Join(h.dir, "missing"), DefaultLimits())
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestList_pathsThatTheServerRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("d/", archive.MaxDepth-1)
	h := newHarness(t).put("a\nb", "").put(`a\b`, "").put("Case/a", "").put("case/b", "").put("same", "").put("SAME", "").put(deep+"fits", "")
	h.put(deep+"d/e", "")
	l := h.list()
	require.Equal(t, []string{"Case/a", "SAME", deep + "fits"}, l.sent())
	paths := make([]string, len(l.Refusals))
	for i, r := range l.Refusals {
		paths[i] = r.Path
	}
	require.Equal(t, []string{"a\nb", `a\b`, "case/b", deep + "d", "same"}, paths)
	require.ErrorContains(t, l.Err(), `"a\nb": path`)
}

func TestList_ignoreFileThatIsALink(t *testing.T) {
	t.Parallel()
	h := newHarness(t).put("patterns", "*").link("patterns", ".gitignore")
	_, err := List(t.Context(), h.dir, DefaultLimits())
	require.ErrorContains(t, err, ".gitignore is not a regular file")
}

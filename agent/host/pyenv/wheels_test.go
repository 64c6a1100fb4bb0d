package pyenv

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// wheel returns the bytes of a wheel with one module and their SHA-256. The wheel's metadata has the given tags.
func wheel(t *testing.T, name, version string, tags ...string) (raw []byte, sum string) {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	info := name + "-" + version + ".dist-info/"
	files := [][2]string{
		{name + ".py", "version = " + fmt.Sprintf("%q", version) + "\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: " + strings.Join(tags, "\nTag: ") + "\n"},
	}
	record := info + "RECORD,,\n"
	for _, f := range files {
		record += f[0] + ",,\n"
	}
	for _, f := range append(files, [2]string{info + "RECORD", record}) {
		w, err := archive.Create(f[0])
		require.NoError(t, err)
		_, err = w.Write([]byte(f[1]))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	h := sha256.Sum256(out.Bytes())
	return out.Bytes(), hex.EncodeToString(h[:])
}

// index is a package index with one wheel. It counts the downloads of the wheel.
type index struct {
	*httptest.Server

	mu        sync.Mutex
	downloads int
}

func newIndex(t *testing.T, name, file string, raw []byte, sum string) *index {
	t.Helper()
	x := &index{}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/simple/" + name + "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, "<!DOCTYPE html><html><body><a href=\"/files/%s#sha256=%s\">%s</a></body></html>", file, sum, file)
		case "/files/" + file:
			if r.Method == http.MethodGet {
				x.mu.Lock()
				x.downloads++
				x.mu.Unlock()
			}
			http.ServeContent(w, r, file, time.Time{}, bytes.NewReader(raw))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(x.Close)
	return x
}

func (x *index) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.downloads
}

// environment returns variables that let a build use only this index, and find only Python and the given programs.
func (x *index) environment(t *testing.T, programs map[string]string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable)").Output()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(strings.TrimSpace(string(out)), filepath.Join(dir, "python3")))
	for name, path := range programs {
		require.NoError(t, os.Symlink(path, filepath.Join(dir, name)))
	}
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PIP_") && !strings.HasPrefix(variable, "UV_") {
			env = append(env, variable)
		}
	}
	return append(env, "PATH="+dir, "PIP_CONFIG_FILE="+os.DevNull, "PIP_INDEX_URL="+x.URL+"/simple", "PIP_RETRIES=0", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
}

const demoWheel = "sb_demo-1.0-py3-none-any.whl"

// requiring returns requirements with a hash. A different remark gives a different environment.
func requiring(sum, remark string) executor.EnvironmentSpec {
	return executor.EnvironmentSpec{Requirements: "# " + remark + "\nsb_demo==1.0 --hash=sha256:" + sum + "\n"}
}

// buildDemo builds an environment with the demo wheel and checks that its module can be imported.
func buildDemo(t *testing.T, b *Builder, spec executor.EnvironmentSpec) {
	t.Helper()
	env, err := b.Ensure(t.Context(), spec, "")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), env.Python, "-c", "import sb_demo; print(sb_demo.version)").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "1.0", strings.TrimSpace(string(out)))
}

func realUV(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../../../scripts/tools/uv.sh").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// A wheel that one build has downloaded is not downloaded by the next one.
func TestBuilder_Ensure_wheelsShared(t *testing.T) {
	t.Parallel()
	for name, programs := range map[string]map[string]string{"pip": nil, "uv": {"uv": realUV(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, sum := wheel(t, "sb_demo", "1.0", "py3-none-any")
			x := newIndex(t, "sb-demo", demoWheel, raw, sum)
			b := NewBuilder(t.TempDir(), x.environment(t, programs), clock.Real(), nil)
			b.LimitWheels(1 << 20)
			buildDemo(t, b, requiring(sum, "first"))
			require.Equal(t, 1, x.count())
			buildDemo(t, b, requiring(sum, "second"))
			require.Equal(t, 1, x.count(), "the second build must take the wheel from the cache")

			cached := filepath.Join(b.wheels.dir, sum, demoWheel)
			require.NoError(t, os.WriteFile(cached, []byte("damaged"), 0o600))
			buildDemo(t, b, requiring(sum, "third"))
			require.Equal(t, 2, x.count(), "a damaged wheel must be downloaded again")
			require.NoFileExists(t, cached, "a damaged wheel must be removed")
		})
	}
}

// A file that a hostile build leaves in its folder reaches no other build, unless the file has the hash and the name of
// a wheel that the hostile build requires.
func TestWheels_keep_hostileBuild(t *testing.T) {
	t.Parallel()
	good, sum := wheel(t, "sb_demo", "1.0", "py2-none-any", "py3-none-any")
	other, otherSum := wheel(t, "sb_other", "1.0", "py3-none-any")
	for name, c := range map[string]struct {
		file string
		raw  []byte
		kept bool
	}{
		"wheel":            {"sb_demo-1.0-py2.py3-none-any.whl", good, true},
		"spelling":         {"Sb.Demo-1.0-py2.py3-none-any.whl", good, true},
		"other bytes":      {"sb_demo-1.0-py2.py3-none-any.whl", append([]byte("#!"), good...), false},
		"not required":     {"sb_other-1.0-py3-none-any.whl", other, false},
		"other package":    {"sb_other-1.0-py2.py3-none-any.whl", good, false},
		"other version":    {"sb_demo-2.0-py2.py3-none-any.whl", good, false},
		"other platform":   {"sb_demo-1.0-py3-none-manylinux1_x86_64.whl", good, false},
		"fewer platforms":  {"sb_demo-1.0-py3-none-any.whl", good, false},
		"no wheel":         {"sb_demo-1.0.tar.gz", good, false},
		"name without end": {"sb_demo.whl", good, false},
		"too large":        {"sb_demo-1.0-py2.py3-none-any.whl", append(good, make([]byte, 1<<20)...), false},
	} {
		w := wheels{dir: t.TempDir(), max: 1 << 20}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, c.file), c.raw, 0o600))
		require.NoError(t, w.keep(dir, []string{sum}, nil), name)
		require.Equal(t, c.kept, len(w.offer([]string{sum, otherSum}, time.Now())) == 1, name)
		entries, err := os.ReadDir(w.dir)
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		require.Equal(t, c.kept, len(entries) == 1, "%s: the cache must contain the wheel if it is kept, and otherwise nothing", name)
	}

	w, dir := wheels{dir: t.TempDir(), max: 1 << 20}, t.TempDir()
	outside := filepath.Join(t.TempDir(), "sb_demo-1.0-py2.py3-none-any.whl")
	require.NoError(t, os.WriteFile(outside, good, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, filepath.Base(outside))))
	require.NoError(t, w.keep(dir, []string{sum}, nil))
	require.Empty(t, w.offer([]string{sum}, time.Now()), "links must not be followed")
	link := filepath.Join(t.TempDir(), "wheels")
	require.NoError(t, os.Symlink(filepath.Dir(outside), link))
	require.Error(t, w.keep(link, []string{sum}, nil), "a link in place of the folder must be rejected")
	require.Empty(t, w.offer([]string{sum}, time.Now()))
	require.NoError(t, w.keep(filepath.Dir(outside), []string{sum}, nil))
	require.NoError(t, w.keep(filepath.Dir(outside), []string{sum}, nil), "a wheel that is cached already must be accepted")
	require.Len(t, w.offer([]string{sum}, time.Now()), 1)
	require.NoError(t, os.WriteFile(outside, []byte("changed later"), 0o600))
	kept, err := os.ReadFile(w.offer([]string{sum}, time.Now())[0].path)
	require.NoError(t, err)
	require.Equal(t, good, kept, "the cache must have its own copy")
}

// The names in a hostile wheel must not fill the agent's memory.
func TestCheckWheel_hugeDirectory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sb_demo-1.0-py3-none-any.whl")
	file, err := os.Create(path)
	require.NoError(t, err)
	archive := zip.NewWriter(file)
	const files, length = 100, 60_000
	for i := range files {
		_, err := archive.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("%0*d", length, i)})
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, file.Close())
	require.ErrorContains(t, checkWheel(path, 1<<20), "too large")
	require.ErrorContains(t, checkWheel(path, maxDirectory), "no metadata")
}

func TestWheels_trim_leastRecentlyUsedFirst(t *testing.T) {
	t.Parallel()
	w, now := wheels{dir: t.TempDir(), max: 2500}, time.Now()
	place := func(name string, age time.Duration) {
		dir := filepath.Join(w.dir, name)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x.whl"), make([]byte, 1000), 0o600))
		require.NoError(t, os.Chtimes(dir, now.Add(-age), now.Add(-age)))
	}
	place("old", 3*time.Hour)
	place("used", 4*time.Hour)
	place("new", time.Hour)
	place(newWheel+"killed", 0)
	require.Len(t, w.offer([]string{"used"}, now), 1)
	freed, err := w.trim()
	require.NoError(t, err)
	require.EqualValues(t, 2000, freed)
	for name, left := range map[string]bool{"old": false, "used": true, "new": true, newWheel + "killed": false} {
		require.Equal(t, left, len(w.offer([]string{name}, now)) == 1, name)
	}
	freed, err = wheels{dir: filepath.Join(w.dir, "none"), max: 1}.trim()
	require.NoError(t, err)
	require.Zero(t, freed)
}

func TestHashes(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 64), strings.Repeat("B", 64)
	require.Equal(t, []string{a, strings.ToLower(b)}, hashes("x==1 \\\n  --hash=sha256:"+b+" \\\n --hash=sha256:"+a+" --hash=sha256:"+a+"\ny==2 --hash=sha512:"+a+a))
	require.Empty(t, hashes("x==1\n--hash=sha256:"+a[:63]))
}

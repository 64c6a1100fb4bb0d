package pylock_test

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
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pylock"
)

// pythonIndex serves a package index with wheels. The keys are names and versions, the values the requirements of a
// wheel.
func pythonIndex(t *testing.T, packages map[string][]string) string {
	t.Helper()
	files, pages := map[string][]byte{}, map[string]string{}
	for key, requires := range packages {
		name, version, _ := strings.Cut(key, " ")
		file := strings.ReplaceAll(name, "-", "_") + "-" + version
		var out bytes.Buffer
		archive := zip.NewWriter(&out)
		metadata := "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\nProvides-Extra: fast\n"
		for _, r := range requires {
			metadata += "Requires-Dist: " + r + "\n"
		}
		for path, text := range map[string]string{
			"METADATA": metadata, "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "RECORD": "",
		} {
			w, err := archive.Create(file + ".dist-info/" + path)
			require.NoError(t, err)
			_, err = w.Write([]byte(text))
			require.NoError(t, err)
		}
		require.NoError(t, archive.Close())
		file += "-py3-none-any.whl"
		sum := sha256.Sum256(out.Bytes())
		files[file] = out.Bytes()
		pages[name] += fmt.Sprintf("<a href=\"/files/%s#sha256=%s\">%s</a>\n", file, hex.EncodeToString(sum[:]), file)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if file, ok := strings.CutPrefix(r.URL.Path, "/files/"); ok && files[file] != nil {
			_, _ = w.Write(files[file])
			return
		}
		name := strings.Trim(strings.TrimPrefix(r.URL.Path, "/simple/"), "/")
		if pages[name] == "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!DOCTYPE html><html><body>" + pages[name] + "</body></html>"))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/simple"
}

const project = `[project]
name = "mine"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = [
    "web[fast]; python_full_version >= '3.8'", "colour; sys_platform == 'win32'",
    "number<2; python_version < '3.12'", "number>=2; python_version >= '3.12'", "mine[plots]",
]
[project.optional-dependencies]
plots = ["plot"]
slow = ["never"]
[dependency-groups]
dev = ["checker"]
docs = ["never"]
`

// A lock of uv gives the packages that uv itself would install, and so do the requirements that uv writes.
func TestLock_Pins_likeUV(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "../../scripts/tools/uv.sh").Output()
	require.NoError(t, err)
	program, dir := strings.TrimSpace(string(out)), t.TempDir()
	index := pythonIndex(t, map[string][]string{
		"web 1.0": {"base>=1", "quick; extra == 'fast'"}, "base 1.0": {"web", "windows; os_name == 'nt'"}, "quick 0.9rc1": nil, "quick 0.9": nil,
		"windows 1.0": nil, "colour 1.0": nil, "number 1.5": nil, "number 2.1": {"base"}, "plot 3.0.post1": {"number"}, "checker 1.0": nil, "never 1.0": nil,
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pyproject.toml"), []byte(project), 0o600))
	uv := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = dir
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "UV_CACHE_DIR=" + t.TempDir(), "UV_DEFAULT_INDEX=" + index, "NO_PROXY=127.0.0.1",
			"UV_NO_CONFIG=1", "UV_PYTHON_DOWNLOADS=never",
		}
		var problem bytes.Buffer
		cmd.Stderr = &problem
		out, err := cmd.Output()
		require.NoError(t, err, problem.String())
		return string(out)
	}
	uv("lock")
	lock, err := os.ReadFile(filepath.Join(dir, "uv.lock"))
	require.NoError(t, err)
	exported := uv("export", "--frozen", "--no-emit-project")
	for name, env := range map[string]pylock.Environment{"3.12 on Linux": linux(), "3.11 on Windows": windows()} {
		pins := func(file, text string) []string {
			parsed, err := pylock.Parse(file, []byte(text))
			require.NoError(t, err, text)
			found, err := parsed.Pins(env)
			require.NoError(t, err)
			list := []string{}
			for _, p := range found {
				list = append(list, p.Name+" "+p.Version+" "+strings.Join(p.Hashes, " "))
			}
			return list
		}
		own := pins("uv.lock", string(lock))
		require.Equal(t, pins("requirements.txt", exported), own, name)
		text := strings.Join(own, "\n")
		require.NotContains(t, text, "never")
		require.Equal(t, name != "3.12 on Linux", strings.Contains(text, "windows"), text)
	}
}

// windows returns the environment of CPython 3.11 on Windows.
func windows() pylock.Environment {
	env := linux()
	env["os_name"], env["sys_platform"], env["platform_system"] = "nt", "win32", "Windows"
	env["python_version"], env["python_full_version"], env["implementation_version"] = "3.11", "3.11.9", "3.11.9"
	return env
}

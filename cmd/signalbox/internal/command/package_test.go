package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/archive"
)

const customJob = `name: own
project: search
recipe: {name: custom/custom, version: 1.0.0, lock: {name: custom/custom}}
source: {command: [python, train.py]}
`

// folderWith returns a folder with a job and with files, which have their names as content.
func folderWith(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(customJob), 0o600))
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	return dir
}

func TestSubmit_folder(t *testing.T) {
	t.Parallel()
	var h *harness
	var uploaded []byte
	var created, job map[string]any
	requests := []string{}
	h = newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.Path)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		switch r.URL.Path {
		case "/api/submit/packages":
			err = json.Unmarshal(body, &created)
			fmt.Fprintf(w, `{"id":"pkg_1","state":"uploading","upload":{"url":%q,"method":"PUT","headers":{}}}`, h.server.URL+"/object")
		case "/object":
			uploaded = body
		case "/api/submit/packages/pkg_1/commit":
			fmt.Fprint(w, `{"id":"pkg_1","state":"accepted"}`)
		case "/api/jobs":
			err = json.Unmarshal(body, &job)
			fmt.Fprint(w, `{"id":"job_1","name":"own","state":"queued"}`)
		}
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	dir := folderWith(t, "train.py")
	got := h.run("jobs", "submit", filepath.Join(dir, "job.yaml"), "--folder", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, []string{
		"POST /api/submit/packages", "PUT /object", "POST /api/submit/packages/pkg_1/commit", "POST /api/jobs",
	}, requests)
	require.Equal(t, "search", created["project"])
	require.InDelta(t, len(uploaded), created["size_bytes"], 0)
	facts, err := archive.Inspect(bytes.NewReader(uploaded), int64(len(uploaded)), 1<<20)
	require.NoError(t, err)
	require.Equal(t, 2, facts.Entries)
	spec, ok := job["spec"].(map[string]any)
	require.True(t, ok)
	require.Equal(t, map[string]any{"command": []any{"python", "train.py"}, "package": "pkg_1"}, spec["source"])
}

func TestSubmit_folderIsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent", r.Method, r.URL.Path)
	})
	dir := folderWith(t, "train.py", ".env", "id_rsa")
	job := filepath.Join(dir, "job.yaml")
	for _, args := range [][]string{
		{"jobs", "submit", job, "--folder", dir},
		{"jobs", "submit", job, "--folder", dir, "--dry-run"},
		{"jobs", "submit", "--folder", dir, "--list-files"},
	} {
		got := h.run(args...)
		require.Equal(t, 2, got.code, got.err)
		require.Contains(t, got.err, ".env: name .env*, id_rsa: name id_rsa*")
	}
	require.Equal(t, 2, h.run("jobs", "submit", job, "--folder", filepath.Join(dir, "missing")).code)
	require.Equal(t, 2, h.run("jobs", "submit", "--list-files").code)
}

func TestSubmit_listFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent", r.Method, r.URL.Path)
	})
	dir := folderWith(t, "train.py", "x.log")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".signalboxignore"), []byte("*.log\njob.yaml\n"), 0o600))
	got := h.run("jobs", "submit", "--folder", dir, "--list-files", "-o", "json")
	require.Equal(t, 0, got.code, got.err)
	var rows []struct{ Path, Excluded string }
	require.NoError(t, json.Unmarshal([]byte(got.out), &rows))
	require.Equal(t, []struct{ Path, Excluded string }{
		{".signalboxignore", ""}, {"job.yaml", ".signalboxignore:2: job.yaml"}, {"train.py", ""}, {"x.log", ".signalboxignore:1: *.log"},
	}, rows)
}

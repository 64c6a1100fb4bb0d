package command_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The list states what was removed and what that frees; a download of all files leaves it out.
func TestArtifacts_removedCheckpoints(t *testing.T) {
	t.Parallel()
	const run = "run_01kab3c4d5e6f7g8h9j0kmnpqr"
	row := func(id, removed string) string {
		return `{"id": "` + id + `", "kind": "checkpoint", "format": "raw", "step": 1, "size_bytes": 1048576, "name": "m.bin",
			"created_at": "2026-11-21T09:00:00+00:00", "removed_at": ` + removed + `}`
	}
	const removed = `"2026-11-21T09:10:00+00:00"`
	list := []string{row("art_a", removed), row("art_b", removed), row("art_c", "null")}
	h := newHarness(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/runs/" + run + "/artifacts":
			_, _ = io.WriteString(w, "["+strings.Join(list, ",")+"]")
		case "/api/runs/" + run + "/download":
			_, _ = io.WriteString(w, `[{"artifact_id": "art_a", "kind": "checkpoint", "path": "checkpoint-1/m.bin", "url": null, "size_bytes": 1048576, "sha256": null, "reason": "artifact_removed"}]`)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	})
	got := h.run("artifacts", "ls", run)
	require.Zero(t, got.code, got.err)
	require.Contains(t, got.out, "REMOVED")
	require.Equal(t, "2 checkpoints were removed, because their job does not keep them; that frees 2.0 MiB\n", got.err)
	got = h.run("artifacts", "ls", run, "-o", "json")
	require.Empty(t, got.err, "a program reads removed_at")
	list = list[1:]
	require.Equal(t, "1 checkpoint was removed, because its job does not keep it; that frees 1.0 MiB\n", h.run("artifacts", "ls", run).err)
	list = list[1:]
	require.Empty(t, h.run("artifacts", "ls", run).err)

	got = h.run("artifacts", "pull", run, "--kind", "checkpoint")
	require.Contains(t, got.err, "checkpoints that were removed, because the job does not keep them: 1")
	require.NotContains(t, got.err, "on the host of the run")
}

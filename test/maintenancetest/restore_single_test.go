package maintenancetest

import (
	"net/http"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// singleHost runs all services in one process. A backup is a copy of the database's folder.
type singleHost struct{ s *testenv.Installation }

func (h *singleHost) data(name string) string { return filepath.Join(h.s.Dir, "data", name) }

func (h *singleHost) auditDir() string { return h.data("audit") }

func (h *singleHost) start() { h.s.StartSingle() }

func (h *singleHost) stop() {
	h.s.T.Helper()
	_, ok := h.s.Processes["signalboxd"].Stop(stopWithin)
	require.True(h.s.T, ok, h.s.Tail())
}

func (h *singleHost) backUp() { copyTree(h.s.T, h.data("postgres"), filepath.Join(h.s.Dir, "backup")) }

func (h *singleHost) restore() {
	require.NoError(h.s.T, os.RemoveAll(h.data("postgres")))
	copyTree(h.s.T, filepath.Join(h.s.Dir, "backup"), h.data("postgres"))
}

func (h *singleHost) leave() {
	old := h.data("") + ".old"
	require.NoError(h.s.T, os.Rename(h.data(""), old))
	for _, name := range []string{"keys", "objects", "audit"} {
		copyTree(h.s.T, filepath.Join(old, name), h.data(name))
	}
}

func (h *singleHost) comeBack() {
	require.NoError(h.s.T, os.RemoveAll(h.data("")))
	require.NoError(h.s.T, os.Rename(h.data("")+".old", h.data("")))
}

// startRefused stops the process again, because the command `signalbox-setup restored` needs the data folder.
func (h *singleHost) startRefused(refusal func() response) {
	t := h.s.T
	h.s.Processes["signalboxd"].Start()
	requireMaintenance(t, refusal)
	health := do(t, h.s.URL, "", http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusOK, health.status)
	require.JSONEq(t, `{"status":"ok"}`, health.body)
	version := do(t, h.s.URL, "", http.MethodGet, "/api/version", "")
	require.Equal(t, http.StatusOK, version.status)
	require.Contains(t, version.body, `"api":"service/v1"`)
	out, err := h.settle()
	require.Error(t, err)
	require.Contains(t, out, "signalboxd uses the data folder")
	h.stop()
	require.NoError(t, h.s.Processes["signalboxd"].Err(), h.s.Tail())
}

func (h *singleHost) settle(args ...string) (string, error) {
	h.s.T.Helper()
	return settled(h.s.T, append([]string{"--data", h.data(""), "--postgres-cache", filepath.Join(testenv.Root(h.s.T), ".cache", "postgres")}, args...)...)
}

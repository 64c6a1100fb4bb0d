package maintenancetest

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// splitHost runs one process per service. A backup is a copy of the database on the same server, as a dump would be.
type splitHost struct{ s *testenv.Installation }

func (h *splitHost) auditDir() string { return filepath.Join(h.s.Dir, "lib", "audit") }

// services returns the processes that use the database or are reached through the gateway.
func (h *splitHost) services() (all []*testenv.Process) {
	for _, name := range h.s.Order {
		if name != "agent" {
			all = append(all, h.s.Processes[name])
		}
	}
	return all
}

// start starts the processes unless they run, and waits until no service is in maintenance.
func (h *splitHost) start() {
	h.s.T.Helper()
	for _, p := range h.services() {
		select {
		case <-p.Exited():
			p.Start()
		default: // the process is running and leaves maintenance by itself
		}
	}
	h.s.AwaitServing()
	admin := signIn(h.s.T, h.s)
	for _, path := range []string{"/api/jobs", "/api/datasets", "/api/model-deployments", "/api/runs/run_00000000000000000000000000/metrics"} {
		h.s.Until(h.s.T.Context(), path+" responds", func() bool {
			a, err := request(h.s.T.Context(), h.s.URL, admin, http.MethodGet, path, "")
			return err == nil && a.status < http.StatusInternalServerError
		})
	}
}

func (h *splitHost) stop() {
	h.s.T.Helper()
	for _, p := range h.services() {
		p.Signal(syscall.SIGTERM)
	}
	for _, p := range h.services() {
		select {
		case <-p.Exited():
		case <-time.After(stopWithin):
			require.FailNow(h.s.T, p.Name+" does not end", h.s.Tail())
		}
	}
}

func (h *splitHost) execute(statements ...string) {
	t := h.s.T
	t.Helper()
	conn, err := pgx.Connect(t.Context(), h.s.Postgres.AdminURL().Reveal())
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, sql := range statements {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
}

func (h *splitHost) backUp() {
	h.execute(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'signalbox'`, `CREATE DATABASE backup TEMPLATE signalbox`)
}

func (h *splitHost) restore() {
	h.execute(`DROP DATABASE signalbox WITH (FORCE)`, `CREATE DATABASE signalbox TEMPLATE backup`)
	h.s.SetUpDatabase() // the rights to connect are not part of a backup
}

// folders returns the folders of the services.
func (h *splitHost) folders() []string {
	return []string{filepath.Join(h.s.Dir, "lib"), filepath.Join(h.s.Dir, "etc", "signalbox")}
}

func (h *splitHost) leave() {
	for _, dir := range h.folders() {
		require.NoError(h.s.T, os.Rename(dir, dir+".old"))
		copyTree(h.s.T, dir+".old", dir)
	}
}

func (h *splitHost) comeBack() {
	for _, dir := range h.folders() {
		require.NoError(h.s.T, os.RemoveAll(dir))
		require.NoError(h.s.T, os.Rename(dir+".old", dir))
	}
}

// startRefused leaves the processes running: they leave maintenance by themselves.
func (h *splitHost) startRefused(refusal func() response) {
	for _, p := range h.services() {
		p.Start()
	}
	requireMaintenance(h.s.T, refusal)
	require.Equal(h.s.T, http.StatusOK, do(h.s.T, h.s.URL, "", http.MethodGet, "/healthz", "").status)
}

func (h *splitHost) settle(args ...string) (string, error) {
	h.s.T.Helper()
	return settled(h.s.T, append([]string{"--dir", filepath.Join(h.s.Dir, "etc", "signalbox"), "--audit-dir", h.auditDir()}, args...)...)
}

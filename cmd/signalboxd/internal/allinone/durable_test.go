package allinone

import (
	"context"
	"crypto/rand"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// The settings of an external server can change while signalboxd runs.
func TestRun_refusesWritesWhileDatabaseMayLoseThem(t *testing.T) {
	t.Parallel()
	dir := folderOf(t)
	bin, err := local.Find("", postgresCache(t))
	require.NoError(t, err)
	data := filepath.Join(dir, "pg")
	pgtest.Cluster(t, data)
	server, err := local.Start(t.Context(), local.Config{BinDir: bin, Dir: data, Entropy: rand.Reader, Tunable: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	const password = "correct horse"
	w := serve(t, dir, map[string]string{
		"SERVICE_DATABASE_ADMIN_URL": server.AdminURL().Reveal(), "SERVICE_BOOTSTRAP_ADMIN_PASSWORD": password,
	})
	c := w.admin(password)
	made := 0
	create := func() (status int, body string) {
		made++
		key := "project-" + strconv.Itoa(made)
		a, err := c.Call(t.Context(), http.MethodPost, "/api/projects", map[string]any{"key": key, "name": key})
		require.NoError(t, err)
		return a.Status, string(a.Body)
	}
	alter := func(sql string) {
		conn, err := pgx.Connect(t.Context(), server.AdminURL().Reveal())
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(t.Context())) }()
		for _, one := range []string{sql, `SELECT pg_reload_conf()`} {
			_, err = conn.Exec(t.Context(), one)
			require.NoError(t, err)
		}
	}
	status, body := create()
	require.Equal(t, http.StatusCreated, status, body)
	alter(`ALTER SYSTEM SET fsync = off`)
	require.Eventually(t, func() bool {
		status, body = create()
		return status != http.StatusCreated
	}, time.Minute, 200*time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, status, body)
	require.Contains(t, body, `"code":"database_read_only"`)
	require.NoError(t, c.Get(t.Context(), "/api/projects", nil, &[]struct{}{}), "reads must continue")
	require.True(t, strings.Contains(w.log.String(), "writes are refused"), w.log.String())
	alter(`ALTER SYSTEM RESET fsync`)
	require.Eventually(t, func() bool {
		status, body = create()
		return status == http.StatusCreated
	}, time.Minute, 200*time.Millisecond, body)
	require.NoError(t, w.stop())
}

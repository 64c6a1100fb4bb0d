package allinone

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// folderOf creates a temporary folder with a short path, as Unix sockets need.
func folderOf(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sb") //nolint:usetesting // Unix sockets need a short path.
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// folderWithCluster is like folderOf, but the folder contains the files of an empty database server. signalboxd then
// skips its longest step.
func folderWithCluster(t *testing.T) string {
	t.Helper()
	dir := folderOf(t)
	pgtest.Cluster(t, filepath.Join(dir, "data", "postgres"))
	return dir
}

func postgresCache(t *testing.T) string {
	t.Helper()
	cache, err := filepath.Abs(filepath.Join("..", "..", "..", "..", ".cache", "postgres"))
	require.NoError(t, err)
	return cache
}

func (w *runningServer) admin(password string) *client.Client {
	w.t.Helper()
	var out struct{ Token string }
	c := client.New(w.ready.Address, nil)
	body := map[string]string{"username": "admin", "password": password}
	require.NoError(w.t, c.Post(w.t.Context(), "/api/auth/login", body, &out))
	return c.With(secret.New(out.Token))
}

func TestRun_firstLoginShownBeforeLaterFailure(t *testing.T) {
	// Turn garbage collection off, so that no finalizer closes what the code under test must close. Therefore this
	// test is not parallel.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	dir := folderOf(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	flags := map[string]string{
		"SERVICE_DATA": filepath.Join(dir, "data"), "SERVICE_LISTEN": "127.0.0.1:0", "SERVICE_POSTGRES_CACHE": postgresCache(t),
		"SERVICE_ADMIN_LISTEN": taken.Addr().String(),
	}
	out, _, err := runInvalid(t, flags, Options{Exec: []string{"/bin/false"}, ReadyFile: filepath.Join(dir, "ready.json")})
	require.ErrorContains(t, err, taken.Addr().String())
	require.NoFileExists(t, filepath.Join(dir, "ready.json"))
	require.NoFileExists(t, filepath.Join(dir, "data", "postgres", "postmaster.pid"), "the database must have been stopped")
	shown := regexp.MustCompile(`admin / (\S+)`).FindStringSubmatch(out.String())
	require.NotNil(t, shown, "the account exists, so its password must have been shown")
	w := serve(t, dir, nil)
	require.Empty(t, w.out.String())
	require.Equal(t, http.StatusOK, w.login(shown[1]))
	require.NoError(t, w.stop())
}

func TestRun_embeddedAgentJoinsFleet(t *testing.T) {
	t.Parallel()
	dir := folderWithCluster(t)
	const password = "read from a file"
	file := filepath.Join(dir, "admin-password")
	require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	w := serve(t, dir, map[string]string{"SERVICE_BOOTSTRAP_ADMIN_PASSWORD_FILE": file, "SERVICE_AGENT_HOSTNAME": "here"})
	require.Empty(t, w.out.String(), "a configured password must not be shown")
	c := w.admin(password)
	var fleets []struct {
		ID, Name, Kind string
		Pools          []string
	}
	require.NoError(t, c.Get(t.Context(), "/api/fleets", nil, &fleets))
	require.Len(t, fleets, 1)
	require.Equal(t, localFleet, fleets[0].Name)
	require.Equal(t, "agent", fleets[0].Kind)
	require.Equal(t, []string{localPool}, fleets[0].Pools)
	var nodes []struct {
		ID, State string
		FleetID   string `json:"fleet_id"`
	}
	require.Eventually(t, func() bool {
		err := c.Get(t.Context(), "/api/cluster/nodes", nil, &nodes)
		return err == nil && len(nodes) == 1 && nodes[0].State == "ready"
	}, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, fleets[0].ID, nodes[0].FleetID)
	node := nodes[0].ID
	require.NoError(t, w.stop())

	again := serve(t, dir, nil)
	c = again.admin(password)
	require.Eventually(t, func() bool {
		err := c.Get(t.Context(), "/api/cluster/nodes", nil, &nodes)
		return err == nil && len(nodes) == 1 && nodes[0].State == "ready"
	}, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, node, nodes[0].ID, "a restart must not create a new node")
	require.NoError(t, again.stop())
}

func TestRun_externalPostgres(t *testing.T) {
	t.Parallel()
	dir := folderOf(t)
	bin, err := local.Find("", postgresCache(t))
	require.NoError(t, err)
	data := filepath.Join(dir, "pg")
	pgtest.Cluster(t, data)
	server, err := local.Start(t.Context(), local.Config{BinDir: bin, Dir: data, Entropy: rand.Reader})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	const password = "correct horse"
	flags := map[string]string{
		"SERVICE_DATABASE_ADMIN_URL": server.AdminURL().Reveal(), "SERVICE_DATABASE_NAME": "elsewhere", "SERVICE_BOOTSTRAP_ADMIN_PASSWORD": password,
	}
	for range 2 {
		w := serve(t, dir, flags)
		require.Equal(t, http.StatusOK, w.login(password))
		require.NoDirExists(t, filepath.Join(dir, "data", "postgres"), "signalboxd must not run a database server of its own")
		require.NoError(t, w.stop())
		require.NotContains(t, w.log.String(), server.Password().Reveal())
	}
}

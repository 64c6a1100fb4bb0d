package contract

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/sample"
)

// certificateRequest is that of a node with a key of its own.
func (b *builder) certificateRequest() string {
	b.Helper()
	request, err := sample.CertificateRequest()
	require.NoError(b, err)
	return request
}

// addCertificateRequest tells one as it stands in a JSON string.
func (b *builder) addCertificateRequest() {
	b.set("certificate_request", strings.ReplaceAll(b.certificateRequest(), "\n", `\n`))
}

// addGhost is a node that has joined a fleet of its own and never came: nothing runs there.
func (b *builder) addGhost() {
	b.Helper()
	admin, name := b.as("admin"), "ghosts-"+strings.ReplaceAll(b.address(), ".", "-")
	var fleet made
	b.do(admin, http.MethodPost, "/api/fleets", map[string]any{"name": name, "kind": "agent", "pools": []string{name}}, &fleet)
	var join struct {
		Token string `json:"token"`
	}
	b.do(admin, http.MethodPost, "/api/fleets/"+fleet.ID+"/join-tokens", map[string]any{}, &join)
	var node struct {
		ID string `json:"node_id"`
	}
	b.do(b.caller(), http.MethodPost, "/api/fleets/join",
		map[string]any{"token": join.Token, "hostname": name, "certificate_request": b.certificateRequest()}, &node)
	b.set("ghost_node", node.ID)
}

// addStuckInstance is an instance of jobs that hangs for as long as the golden lasts: it has the first hardware
// configuration, and takes over no other.
func (b *builder) addStuckInstance() {
	b.Helper()
	ctx := b.Context()
	conn, err := pgx.Connect(ctx, b.database())
	require.NoError(b, err)
	_, err = conn.Exec(ctx, `INSERT INTO jobs.hardware_replica (id, version, until) VALUES ('rep_stuck', 0, now() + interval '1 hour')`)
	require.NoError(b, err)
	b.TB.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		_, err := conn.Exec(ctx, `DELETE FROM jobs.hardware_replica WHERE id = 'rep_stuck'`)
		require.NoError(b, err)
		require.NoError(b, conn.Close(ctx))
	})
	b.set("stuck_instance", "rep_stuck")
}

// database is where the installation keeps its rows, for its superuser.
func (b *builder) database() string {
	b.Helper()
	dir := filepath.Join(b.Dir, "postgres")
	if b.Processes["signalboxd"] != nil {
		dir = filepath.Join(b.Dir, "data", "postgres")
	}
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	require.NoError(b, err)
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(b, err)
	lines := strings.Split(string(pid), "\n") // the port is the fourth
	require.Greater(b, len(lines), 4)
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))),
		Host: "127.0.0.1:" + lines[3], Path: "/signalbox",
	}
	return u.String()
}

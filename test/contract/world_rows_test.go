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
)

// What no request makes on this installation stands in its database from the beginning: clients that register
// elsewhere, people of a provider, and limits that take a hundred requests to reach.

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

// rows runs one statement.
func (b *builder) rows(ctx context.Context, statement string, args ...any) {
	b.Helper()
	conn, err := pgx.Connect(ctx, b.database())
	require.NoError(b, err)
	_, err = conn.Exec(ctx, statement, args...)
	require.NoError(b, err)
	require.NoError(b, conn.Close(ctx))
}

// addStuckInstance is an instance of jobs that hangs for as long as the golden lasts: it has the first hardware
// configuration, and takes over no other.
func (b *builder) addStuckInstance() {
	b.Helper()
	ctx := b.Context()
	b.rows(ctx, `INSERT INTO jobs.hardware_replica (id, version, until) VALUES ('rep_stuck', 0, now() + interval '1 hour')`)
	b.TB.Cleanup(func() { b.rows(context.WithoutCancel(ctx), `DELETE FROM jobs.hardware_replica WHERE id = 'rep_stuck'`) })
	b.set("stuck_instance", "rep_stuck")
}

// addProgram is a client of the authorization server that listens on its person's machine.
func (b *builder) addProgram() {
	b.Helper()
	b.rows(b.Context(), `INSERT INTO auth.oauth_client (id, name, redirect_uris, created_at) VALUES ('prog-golden', 'Program', $1, now())`,
		[]string{"http://127.0.0.1/back"})
	b.set("program", "prog-golden")
}

// addProvided is someone who has an address and signs in by a provider.
func (b *builder) addProvided() {
	b.Helper()
	const name, password = "priya", "a good password of priya"
	b.do(b.as("admin"), http.MethodPost, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": password}, nil)
	b.set("provided", b.signIn(name, password))
	b.rows(b.Context(), `UPDATE auth.account SET password_hash = '', email = 'priya@example.com' WHERE username = $1`, name)
}

// addJoiner is someone who is in as many teams as a person may be for as long as the golden lasts.
func (b *builder) addJoiner() {
	b.Helper()
	const name = "jo"
	b.do(b.as("admin"), http.MethodPost, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": "a good password of jo"}, nil)
	ctx := b.Context()
	b.rows(ctx, `WITH made AS (
			INSERT INTO auth.team (id, key, name, created_at) SELECT 'team_many_' || n, 'many-' || n, 'One of many', now() FROM generate_series(1, 100) n
			RETURNING id)
		INSERT INTO auth.team_member (team_id, account_id, role) SELECT made.id, a.id, 'member' FROM made, auth.account a WHERE a.username = $1`, name)
	b.TB.Cleanup(func() { b.rows(context.WithoutCancel(ctx), `DELETE FROM auth.team WHERE id LIKE 'team\_many\_%'`) })
	b.set("joiner", name)
}

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

// This file inserts rows that no request can create on these installations, such as users of a sign-in provider, and
// rows to reach a limit that a golden could reach only with a hundred requests.

// database returns the URL of the installation's database, with the superuser and its password.
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
	lines := strings.Split(string(pid), "\n") // the fourth line is the port
	require.Greater(b, len(lines), 4)
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))),
		Host: "127.0.0.1:" + lines[3], Path: "/signalbox",
	}
	return u.String()
}

// execSQL runs one SQL statement as the superuser.
func (b *builder) execSQL(ctx context.Context, statement string, args ...any) {
	b.Helper()
	conn, err := pgx.Connect(ctx, b.database())
	require.NoError(b, err)
	_, err = conn.Exec(ctx, statement, args...)
	require.NoError(b, err)
	require.NoError(b, conn.Close(ctx))
}

// addStuckInstance inserts the row of a jobs service instance that never responds: it keeps the first hardware
// configuration and adopts no later one. The row is deleted when the golden ends.
func (b *builder) addStuckInstance() {
	b.Helper()
	ctx := b.Context()
	b.execSQL(ctx, `INSERT INTO jobs.hardware_replica (id, version, until) VALUES ('rep_stuck', 0, now() + interval '1 hour')`)
	b.TB.Cleanup(func() {
		b.execSQL(context.WithoutCancel(ctx), `DELETE FROM jobs.hardware_replica WHERE id = 'rep_stuck'`)
	})
	b.set("stuck_instance", "rep_stuck")
}

// addSignInLink creates a sign-in link of the admin.
func (b *builder) addSignInLink() {
	b.Helper()
	b.set("sign_in_link", b.SignInLink(b.Context()))
}

// addProgram adds an OAuth client with a loopback redirect URI.
func (b *builder) addProgram() {
	b.Helper()
	b.execSQL(b.Context(), `INSERT INTO auth.oauth_client (id, name, redirect_uris, created_at) VALUES ('prog-golden', 'Program', $1, now())`,
		[]string{"http://127.0.0.1/back"})
	b.set("program", "prog-golden")
}

// addProvided creates a user who has an e-mail address and signs in through a sign-in provider.
func (b *builder) addProvided() {
	b.Helper()
	const name, password = "priya", "a good password of priya"
	b.do(b.as("admin"), http.MethodPost, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": password}, nil)
	b.set("provided", b.signIn(name, password))
	b.execSQL(b.Context(), `UPDATE auth.account SET password_hash = '', email = 'priya@example.com' WHERE username = $1`, name)
}

// addJoiner creates a user who is a member of the maximum number of teams until the test of the golden file ends.
func (b *builder) addJoiner() {
	b.Helper()
	const name = "jo"
	b.do(b.as("admin"), http.MethodPost, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": "a good password of jo"}, nil)
	ctx := b.Context()
	b.execSQL(ctx, `WITH made AS (
			INSERT INTO auth.team (id, key, name, created_at) SELECT 'team_many_' || n, 'many-' || n, 'One of many', now() FROM generate_series(1, 100) n
			RETURNING id)
		INSERT INTO auth.team_member (team_id, account_id, role) SELECT made.id, a.id, 'member' FROM made, auth.account a WHERE a.username = $1`, name)
	b.TB.Cleanup(func() { b.execSQL(context.WithoutCancel(ctx), `DELETE FROM auth.team WHERE id LIKE 'team\_many\_%'`) })
	b.set("joiner", name)
}

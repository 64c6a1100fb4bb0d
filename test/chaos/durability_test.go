package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/draw"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// TestSingleProcess_asynchronousCommits turns synchronous_commit off for the server, the database and every role. It
// ends all connections, so that the next ones begin with these settings, and later kills the server. No acknowledged
// report may be lost.
func TestSingleProcess_asynchronousCommits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	s := testenv.Single(t, testenv.Options{})
	l := s.Loop(ctx)
	require.NoError(t, l.Submit(ctx, testenv.Command(ctx, s, l, "sleep", "3600")))
	r := newReporters(ctx, t, s, l)
	stop := r.start(ctx, 4)
	r.awaitMore(ctx, 20)
	for _, change := range []string{
		`ALTER SYSTEM SET synchronous_commit = off`, `ALTER DATABASE signalbox SET synchronous_commit = off`, `ALTER ROLE %s SET synchronous_commit = off`,
		`ALTER ROLE %s IN DATABASE signalbox SET synchronous_commit = off`,
	} {
		changeAndReconnect(ctx, t, s, change)
		r.awaitMore(ctx, 20)
		killPostmaster(ctx, t, s)
		r.awaitMore(ctx, 20)
	}
	plain := s.Connect(ctx)
	var value string
	require.NoError(t, plain.QueryRow(ctx, `SELECT current_setting('synchronous_commit')`).Scan(&value))
	require.Equal(t, "off", value, "the changes must take effect for the connections of other programs")
	stop()
	r.requireStored(ctx)
}

// changeAndReconnect executes a statement, once for each role if it contains %s, and ends all other connections.
func changeAndReconnect(ctx context.Context, t *testing.T, s *testenv.Installation, statement string) {
	t.Helper()
	conn := s.Connect(ctx)
	defer func() { _ = conn.Close(ctx) }()
	statements := []string{statement}
	if strings.Contains(statement, "%s") {
		rows, err := conn.Query(ctx, `SELECT quote_ident(rolname) FROM pg_roles WHERE rolcanlogin`)
		require.NoError(t, err)
		roles, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Greater(t, len(roles), 5, "each service must have a role")
		statements = statements[:0]
		for _, role := range roles {
			statements = append(statements, fmt.Sprintf(statement, role))
		}
	}
	for _, sql := range append(statements, `SELECT pg_reload_conf()`,
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`) {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err, sql)
	}
}

// TestSplitInstallation_lossyDatabase turns fsync or full_page_writes off on a database server while services use it.
// Until the setting is on again, writes must be refused and reads must continue. The audit log must record both
// changes.
func TestSplitInstallation_lossyDatabase(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*testenv.StageTimeout)
	defer cancel()
	s := testenv.Split(t, testenv.Options{Tunable: true})
	l := s.Loop(ctx)
	conn := s.Connect(ctx)
	made := 0
	create := func() (status int, body string) {
		made++
		a, err := l.Client.Call(ctx, http.MethodPost, "/api/datasets", map[string]any{"name": fmt.Sprint(l.Name, made), "format": "jsonl"})
		require.NoError(t, err)
		return a.Status, string(a.Body)
	}
	for _, setting := range draw.Some(draw.New(t), 1, []string{"fsync", "full_page_writes"}, draw.Itself) {
		alter(ctx, t, conn, `ALTER SYSTEM SET `+setting+` = off`)
		s.Until(ctx, "writes are refused", func() bool {
			status, body := create()
			return status == http.StatusServiceUnavailable && strings.Contains(body, "database_read_only")
		})
		for _, path := range []string{"/api/datasets", "/api/jobs", "/api/auth/me"} {
			a, err := l.Client.Call(ctx, http.MethodGet, path, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, a.Status, "reads must continue: %s: %s", path, a.Body)
		}
		alter(ctx, t, conn, `ALTER SYSTEM RESET `+setting)
		s.Until(ctx, "writes are accepted", func() bool {
			status, _ := create()
			return status == http.StatusCreated
		})
	}
	for _, action := range []string{"database.unsafe", "database.safe"} {
		s.Until(ctx, "the registry has recorded "+action, func() bool { return audited(ctx, t, l, action, "registry") })
	}
}

func alter(ctx context.Context, t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	for _, statement := range []string{sql, `SELECT pg_reload_conf()`} {
		_, err := conn.Exec(ctx, statement)
		require.NoError(t, err)
	}
}

// audited reports whether the audit log has a row with the given action and target.
func audited(ctx context.Context, t *testing.T, l *e2eflow.Loop, action, target string) bool {
	t.Helper()
	a, err := l.Client.Call(ctx, http.MethodGet, "/api/admin/audit?action="+action, nil)
	require.NoError(t, err)
	return a.Status == http.StatusOK && strings.Contains(string(a.Body), `"target_id":"`+target+`"`)
}

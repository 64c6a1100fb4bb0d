// Package scale shows that the speed and the memory of an installation do not depend on how much data it holds, and
// that one user's load does not slow the others. `make scale` runs the tests at their full sizes and requires the
// goals; `make test` runs them at small sizes and checks only the results. TEST_BIN selects the programs of another
// version, to compare the figures.
package scale

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// rounds is how often two cases are measured alternately.
const rounds = 5

// full reports whether the tests run at their full sizes and require the goals.
func full() bool { return os.Getenv("SCALE") == "full" }

// size returns the parameter large in `make scale`, otherwise the parameter small.
func size(small, large int) int {
	if full() {
		return large
	}
	return small
}

// harness is an installation with access to its database.
type harness struct {
	*testenv.Installation

	loop *e2eflow.Loop
	db   *pgx.Conn
}

func newHarness(ctx context.Context, t *testing.T, s *testenv.Installation) *harness {
	t.Helper()
	h := &harness{Installation: s, loop: s.Loop(ctx)}
	dir := filepath.Join(s.Dir, "postgres")
	if s.Processes["signalboxd"] != nil {
		dir = filepath.Join(s.Dir, "data", "postgres")
	}
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	require.NoError(t, err)
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	lines := strings.Split(string(pid), "\n") // the fourth line is the port
	require.Greater(t, len(lines), 4)
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))),
		Host: "127.0.0.1:" + lines[3], Path: "/signalbox",
	}
	h.db, err = pgx.Connect(ctx, u.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = h.db.Close(context.WithoutCancel(ctx)) })
	return h
}

func (h *harness) exec(ctx context.Context, sql string, args ...any) {
	h.T.Helper()
	_, err := h.db.Exec(ctx, sql, args...)
	require.NoError(h.T, err, sql)
}

// copies inserts n copies of a row. The map `changes` has an SQL expression for each column that differs. In these
// expressions, i is the number of the copy. The names of the other columns are read from the database, so that the
// test also works with older versions.
func (h *harness) copies(ctx context.Context, table, id string, n int, changes map[string]string) {
	h.T.Helper()
	rows, err := h.db.Query(ctx, `SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, table)
	require.NoError(h.T, err)
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(h.T, err)
	names, values := make([]string, 0, len(columns)), make([]string, 0, len(columns))
	for _, column := range columns {
		value := "t." + pgx.Identifier{column}.Sanitize()
		if changed, ok := changes[column]; ok {
			value = changed
		}
		names, values = append(names, pgx.Identifier{column}.Sanitize()), append(values, value)
	}
	for _, column := range slices.Sorted(maps.Keys(changes)) {
		require.Contains(h.T, columns, column)
	}
	h.exec(ctx, fmt.Sprintf(`INSERT INTO %[1]s (%[2]s) SELECT %[3]s FROM %[1]s t, generate_series(1, $2::int) i WHERE t.id = $1`,
		table, strings.Join(names, ", "), strings.Join(values, ", ")), id, n)
	h.exec(ctx, "VACUUM (ANALYZE) "+table) // as autovacuum does within minutes
}

// user creates a user and returns a client that is signed in as this user.
func (h *harness) user(ctx context.Context, name string) *client.Client {
	h.T.Helper()
	const password = "a good password of a user"
	require.NoError(h.T, h.loop.Client.Post(ctx, "/api/admin/users", map[string]any{"username": name, "role": "operator", "password": password}, nil))
	// The users sign in from an address of their own: the number of sign-ins from one address is limited.
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, 1)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	h.T.Cleanup(transport.CloseIdleConnections)
	other := *h.loop
	other.Client = client.New(h.URL, transport)
	require.NoError(h.T, other.Login(ctx, name, secret.New(password)))
	return other.Client
}

// submit submits a command and returns the Loop of the job.
func (h *harness) submit(ctx context.Context, c *client.Client, name string, command ...string) *e2eflow.Loop {
	h.T.Helper()
	l := &e2eflow.Loop{Client: c, Clock: h.loop.Clock, Timeout: h.loop.Timeout, Name: name}
	require.NoError(h.T, l.Submit(ctx, testenv.Command(ctx, h.Installation, l, command...)))
	return l
}

// run is a job that does nothing, and the ingest client that its code would use.
type run struct {
	id      string
	token   secret.String
	reports *client.Client
}

// start starts a job whose run accepts reports until the test ends.
func (h *harness) start(ctx context.Context, t *testing.T, name string) run {
	t.Helper()
	l := h.submit(ctx, h.loop.Client, name, "sh", "-c",
		`printf %s "$SERVICE_JOB_TOKEN" > token.new && mv token.new "$SERVICE_JOB_WORKDIR/token-`+name+`"; exec sleep 3600`)
	var token []byte
	h.Until(ctx, "the job has written its token", func() bool {
		path := h.Find("token-"+name, func(string) bool { return true })
		token, _ = os.ReadFile(path)
		return len(token) > 0
	})
	t.Cleanup(func() { _ = l.Client.Post(context.WithoutCancel(ctx), "/api/jobs/"+l.Job.ID+"/stop", nil, nil) })
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	r := run{id: l.Job.RunID, token: secret.New(string(token))}
	r.reports = client.New(h.URL, transport).With(r.token)
	return r
}

// report prints a figure. In `make scale` it also requires that the goal is reached.
func report(t *testing.T, goal bool, format string, args ...any) {
	t.Helper()
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	text := fmt.Sprintf(format, args...)
	t.Logf("scale: %s (load %s)", text, strings.Fields(string(load))[0])
	if full() && os.Getenv("TEST_BIN") == "" {
		assert.True(t, goal, text)
	}
}

func median[T float64 | time.Duration](list []T) T {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

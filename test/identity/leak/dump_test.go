package leak

import (
	"bytes"
	"context"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg/local"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// admin returns the URL of signalboxd's database for the superuser.
func admin(t *testing.T, s *testenv.Installation) string {
	t.Helper()
	dir := filepath.Join(s.Dir, "data", "postgres")
	password, err := os.ReadFile(filepath.Join(dir, "password"))
	require.NoError(t, err)
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	require.NoError(t, err)
	lines := strings.Split(string(pid), "\n")
	require.Greater(t, len(lines), 4)
	// The fourth line of the file is the port.
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", strings.TrimSpace(string(password))),
		Host: "127.0.0.1:" + lines[3], Path: "/signalbox",
	}
	return u.String()
}

// connect connects to the database as the superuser.
func connect(ctx context.Context, t *testing.T, s *testenv.Installation) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, admin(t, s))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	return conn
}

// dump returns the content of the database: every row of every table in text and in binary format, and the
// output of pg_dump if it is installed.
func dump(ctx context.Context, t *testing.T, s *testenv.Installation, conn *pgx.Conn) []byte {
	t.Helper()
	rows, err := conn.Query(ctx, `SELECT nspname, relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind = 'r' AND nspname NOT IN ('pg_catalog', 'information_schema')`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (pgx.Identifier, error) {
		var schema, name string
		err := row.Scan(&schema, &name)
		return pgx.Identifier{schema, name}, err
	})
	require.NoError(t, err)
	require.Greater(t, len(tables), 30, "the five schemas must have more than 30 tables")
	var out bytes.Buffer
	for _, table := range tables {
		for _, format := range []string{"text", "binary"} {
			_, err := conn.PgConn().CopyTo(ctx, &out, "COPY "+table.Sanitize()+" TO STDOUT (FORMAT "+format+")")
			require.NoError(t, err, table)
			out.WriteByte('\n')
		}
	}
	out.Write(pgDump(ctx, t, s))
	return out.Bytes()
}

// pgDump returns the output of pg_dump, which is in the same folder as the server in a full Postgres
// installation.
func pgDump(ctx context.Context, t *testing.T, s *testenv.Installation) []byte {
	t.Helper()
	bin, err := local.Find("", filepath.Join(testenv.Root(t), ".cache", "postgres"))
	require.NoError(t, err)
	program := filepath.Join(bin, "pg_dump")
	if _, err := os.Stat(program); err != nil {
		t.Logf("pg_dump is not installed; only the content of the tables is searched")
		return nil
	}
	cmd := exec.CommandContext(ctx, program, "--no-owner")
	u, err := url.Parse(admin(t, s))
	require.NoError(t, err)
	password, _ := u.User.Password()
	cmd.Env = []string{"PGHOST=" + u.Hostname(), "PGPORT=" + u.Port(), "PGUSER=postgres", "PGPASSWORD=" + password, "PGDATABASE=signalbox"}
	var fault bytes.Buffer
	cmd.Stderr = &fault
	out, err := cmd.Output()
	require.NoError(t, err, fault.String())
	require.Contains(t, string(out), "COPY auth.refresh_token")
	return out
}

// logs returns the logs of all processes of the installation, including the database server.
func logs(t *testing.T, s *testenv.Installation) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, p := range s.Processes {
		all.WriteString(p.Log())
	}
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(filepath.Base(path), "log") || strings.Contains(path, "/pg_") {
			return nil //nolint:nilerr // the file was removed meanwhile
		}
		raw, err := os.ReadFile(path)
		if err == nil {
			all.Write(raw)
		}
		return nil
	})
	require.NoError(t, err)
	return all.Bytes()
}

// argumentWatch records the arguments of the installation's processes until it is stopped.
type argumentWatch struct {
	dir  string
	stop chan struct{}
	done sync.WaitGroup

	mu   sync.Mutex
	seen map[string]bool // command lines
}

// between is the time between two checks of the processes.
const between = 50 * time.Millisecond

// watchArguments watches the processes whose arguments or environment contain the path of the given folder.
func watchArguments(t *testing.T, dir string) *argumentWatch {
	t.Helper()
	w := &argumentWatch{dir: dir, stop: make(chan struct{}), seen: map[string]bool{}}
	w.done.Go(func() {
		ticker := time.NewTicker(between)
		defer ticker.Stop()
		for {
			w.poll()
			select {
			case <-ticker.C:
			case <-w.stop:
				return
			}
		}
	})
	return w
}

// poll records the arguments of all processes that belong to the installation.
func (w *argumentWatch) poll() {
	for _, pid := range testenv.LeftProcesses(w.dir) {
		raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err != nil || len(raw) == 0 {
			continue // the process has ended
		}
		w.mu.Lock()
		w.seen[string(raw)] = true
		w.mu.Unlock()
	}
}

// arguments stops the watch and returns all recorded arguments.
func (w *argumentWatch) arguments() []byte {
	close(w.stop)
	w.done.Wait()
	var all bytes.Buffer
	for text := range w.seen {
		all.WriteString(strings.ReplaceAll(text, "\x00", " "))
		all.WriteByte('\n')
	}
	return all.Bytes()
}

// dumpTable returns the rows of one table, as in a dump.
func dumpTable(ctx context.Context, t *testing.T, conn *pgx.Conn, table string) []byte {
	t.Helper()
	var out bytes.Buffer
	_, err := conn.PgConn().CopyTo(ctx, &out, "COPY "+table+" TO STDOUT")
	require.NoError(t, err)
	return out.Bytes()
}

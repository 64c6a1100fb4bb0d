package pgtest

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// module is the import path of the project.
const module = "github.com/signalbox-dev/signalbox/"

// Context returns the test's context with a tracer. Each connection that pg.Open or pg.Connect opens with this
// context writes its statements to the file of the tested package in the folder PGTEST_STATEMENTS. tools/sqlcover
// compares these files with the source. If the variable is not set, no statement is collected. The pools of a DB are
// opened with this context.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	s, err := collected()
	require.NoError(tb, err)
	if s == nil {
		return tb.Context()
	}
	return pg.WithTracer(tb.Context(), s)
}

// collected returns the statements of this process, or nil if they are not collected. All databases of a process share
// them, because a tested package has one file.
var collected = sync.OnceValues(func() (*statements, error) {
	folder := os.Getenv("PGTEST_STATEMENTS")
	if folder == "" {
		return nil, nil
	}
	// A process that a test starts must not replace the file, even if it runs this program.
	if err := os.Unsetenv("PGTEST_STATEMENTS"); err != nil {
		return nil, fmt.Errorf("unset PGTEST_STATEMENTS: %w", err)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, fmt.Errorf("find the path of the tested package: the program has no build information")
	}
	tested := strings.TrimSuffix(strings.TrimPrefix(info.Path, module), ".test")
	part := flag.Lookup("test.run")
	return collect(filepath.Join(folder, url.PathEscape(tested)), part != nil && part.Value.String() != "")
})

// collect replaces the file, or adds to it if keep is true: a failed test that runs again must not remove what the others
// have written. It avoids os.OpenFile, because `go test` treats a file that a test opens as an input, and
// does not cache the result of a test whose inputs have just changed.
func collect(path string, keep bool) (*statements, error) {
	mode := syscall.O_TRUNC
	if keep {
		mode = 0
	}
	fd, err := syscall.Open(path, syscall.O_WRONLY|mode|syscall.O_CREAT|syscall.O_APPEND|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the file of statements %s: %w", path, err)
	}
	return &statements{file: os.NewFile(uintptr(fd), path), seen: map[string]bool{}}, nil
}

// statements is a tracer of pgx that writes each distinct statement once, as a quoted string on a line. It does not
// buffer, because this package is not notified when the test process ends.
type statements struct {
	mu   sync.Mutex
	seen map[string]bool
	file *os.File
}

func (s *statements) add(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[sql] {
		return
	}
	s.seen[sql] = true
	_, _ = fmt.Fprintln(s.file, strconv.Quote(sql)) // after a failed write, sqlcover reports the statement as not run
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.add(data.SQL)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		s.add(q.SQL)
	}
	return ctx
}

func (*statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (s *statements) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromStartData) context.Context {
	s.add("COPY " + data.TableName.Sanitize() + " (" + strings.Join(data.ColumnNames, ", ") + ") FROM STDIN")
	return ctx
}

func (*statements) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

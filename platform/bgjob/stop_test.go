package bgjob_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/bgjob"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// guard is how long a test waits for an event before it fails.
const guard = 2 * time.Minute

// line is the network between a pool and its database. If it is cut, connections break and new ones fail;
// if it is frozen, data is sent but no response arrives.
type line struct {
	mu     sync.Mutex
	cut    bool
	frozen bool
	conns  []net.Conn
}

// wire is a connection over a line. A frozen line drops what the server sends.
type wire struct {
	net.Conn
	line *line
}

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if l.is(func() bool { return l.cut }) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conn)
	return &wire{Conn: conn, line: l}, nil
}

func (l *line) is(what func() bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return what()
}

func (l *line) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, c := range l.conns {
		_ = c.Close()
	}
}

func (l *line) freeze() { l.is(func() bool { l.frozen = true; return true }) }

func (l *line) mend() { l.is(func() bool { l.cut, l.frozen = false, false; return true }) }

// Read returns what the server sent. On a frozen line it discards the data and reads until the deadline of the
// caller.
func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if err != nil || !w.line.is(func() bool { return w.line.frozen }) {
			return n, err
		}
	}
}

// newLine returns a working line, a pool that connects over the line and a pool that connects directly.
func newLine(t *testing.T) (l *line, across, beside *pgxpool.Pool) {
	t.Helper()
	l = &line{}
	beside = pool(t)
	cfg := beside.Config()
	cfg.ConnConfig.DialFunc = l.dial
	across, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(across.Close)
	t.Cleanup(func() { l.mend(); l.sever() })
	return l, across, beside
}

// led adds a periodic job. Only a leader inserts it, so the job shows that the client is the leader.
func led(c *bgjob.Config) {
	c.Periodic = []*river.PeriodicJob{river.NewPeriodicJob(river.PeriodicInterval(24*time.Hour),
		func() (river.JobArgs, *river.InsertOpts) { return greet{Name: "periodic"}, nil }, &river.PeriodicJobOpts{RunOnStart: true})}
}

// awaitLog waits until a log message contains the given text. It waits for at most the time guard.
func (b *harness) awaitLog(t *testing.T, words string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(b.log.lines(t), func(line map[string]any) bool {
			return strings.Contains(line["msg"].(string), words)
		})
	}, guard, 10*time.Millisecond, words)
}

// pauses returns the log lines that River writes before it sleeps with a context that cannot be cancelled.
func (b *harness) pauses(t *testing.T) (lines []string) {
	t.Helper()
	for _, line := range b.log.lines(t) {
		msg, _ := line["msg"].(string)
		if strings.Contains(msg, "attempting to resign") || strings.Contains(msg, "Completer error") {
			lines = append(lines, msg)
		}
	}
	return lines
}

func idle(context.Context, *river.Job[greet]) error { return nil }

// A stopping leader resigns. Without the driver of this package, River would try three times if the database does not
// respond, with pauses of seven seconds in total that cannot be cancelled.
func TestClient_Run_leaderStopsQuicklyWithoutDatabase(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*line){"cut off": (*line).sever, "frozen": (*line).freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, across, _ := newLine(t)
			b := setup(t, across, idle, led)
			end := b.begin(t)
			<-b.events
			fail(l)
			end()
			require.Empty(t, b.pauses(t))
			b.awaitLog(t, "expires by itself")
		})
	}
}

func TestClient_Run_storesResultsWhenDatabaseReturns(t *testing.T) {
	t.Parallel()
	l, across, beside := newLine(t)
	worked := 0
	b := setup(t, across, func(context.Context, *river.Job[greet]) error {
		worked++
		l.sever()
		return nil
	})
	end := b.begin(t)
	id := b.insert(t, "x", nil).Job.ID
	b.awaitLog(t, "could not store the results of jobs")
	l.mend()
	<-b.events
	var state string
	require.NoError(t, beside.QueryRow(t.Context(), `SELECT state FROM river_job WHERE id = $1`, id).Scan(&state))
	require.Equal(t, "completed", state)
	end()
	require.Equal(t, 1, worked)
	require.Empty(t, b.pauses(t))
}

func TestClient_Run_stopDropsResultsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	l, across, beside := newLine(t)
	b := setup(t, across, func(context.Context, *river.Job[greet]) error {
		l.sever()
		return nil
	})
	end := b.begin(t)
	id := b.insert(t, "x", nil).Job.ID
	b.awaitLog(t, "could not store the results of jobs")
	end()
	var state string
	require.NoError(t, beside.QueryRow(t.Context(), `SELECT state FROM river_job WHERE id = $1`, id).Scan(&state))
	require.Equal(t, "running", state, "the job is rescued later and runs again")
	require.Empty(t, b.pauses(t))
}

func TestClient_Run_waitsForDatabaseAtStart(t *testing.T) {
	t.Parallel()
	l, across, _ := newLine(t)
	l.sever()
	b := setup(t, across, idle)
	b.begin(t)
	b.awaitLog(t, "could not start the queue")
	l.mend()
	b.insert(t, "x", nil)
	<-b.events
}

func TestClient_Run_stopEndsWaitForDatabase(t *testing.T) {
	t.Parallel()
	l, across, _ := newLine(t)
	l.sever()
	// This clock never advances: only the stop can end the wait between two attempts.
	b := setup(t, across, idle, func(c *bgjob.Config) { c.Clock = clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)) })
	end := b.begin(t)
	b.awaitLog(t, "could not start the queue")
	end()
}

func TestClient_Run_missingTables(t *testing.T) {
	t.Parallel()
	b := setup(t, pool(t), idle, func(c *bgjob.Config) { c.Schema = "elsewhere" })
	require.ErrorContains(t, b.client.Run(t.Context()), "start the queue")
}

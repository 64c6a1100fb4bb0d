package queue_test

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

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/queue"
)

// guard is how long a test waits before it says that something hangs; it decides nothing else.
const guard = 2 * time.Minute

// line is the network between a pool and its database. Cut, nothing connects any more and what is
// connected breaks; frozen, all is sent and nothing is answered.
type line struct {
	mu     sync.Mutex
	cut    bool
	frozen bool
	conns  []net.Conn
}

// wire is one connection over a line. A frozen line holds back what the server sends.
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

// Read answers what the server sent; on a frozen line it goes on until the deadline of the caller.
func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if err != nil || !w.line.is(func() bool { return w.line.frozen }) {
			return n, err
		}
	}
}

// newLine is a line that holds, with a pool of the server's role over it and one beside it.
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

// led makes a client insert a job as soon as it leads: only leaders do what is periodic.
func led(c *queue.Config) {
	c.Periodic = []*river.PeriodicJob{river.NewPeriodicJob(river.PeriodicInterval(24*time.Hour),
		func() (river.JobArgs, *river.InsertOpts) { return greet{Name: "periodic"}, nil }, &river.PeriodicJobOpts{RunOnStart: true})}
}

// said waits until a line with these words is in the log.
func (b *bench) said(t *testing.T, words string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(b.log.lines(t), func(line map[string]any) bool {
			return strings.Contains(line["msg"].(string), words)
		})
	}, guard, 10*time.Millisecond, words)
}

// pauses are the lines of the log with which River goes to sleep under a context that nobody cancels.
func (b *bench) pauses(t *testing.T) (lines []string) {
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

// A leader says that it leads no more. Three tries with pauses of seven seconds, whoever waits, are
// River's own way when the database does not take it.
func TestALeaderWhoseDatabaseIsAwayStopsWithoutAPause(t *testing.T) {
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
			b.said(t, "runs out by itself")
		})
	}
}

func TestTheEndsOfJobsAreStoredWhenTheDatabaseIsBack(t *testing.T) {
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
	b.said(t, "the ends of jobs were not stored yet")
	l.mend()
	<-b.events
	var state string
	require.NoError(t, beside.QueryRow(t.Context(), `SELECT state FROM river_job WHERE id = $1`, id).Scan(&state))
	require.Equal(t, "completed", state)
	end()
	require.Equal(t, 1, worked)
	require.Empty(t, b.pauses(t))
}

func TestAStopGivesUpTheEndsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	l, across, beside := newLine(t)
	b := setup(t, across, func(context.Context, *river.Job[greet]) error {
		l.sever()
		return nil
	})
	end := b.begin(t)
	id := b.insert(t, "x", nil).Job.ID
	b.said(t, "the ends of jobs were not stored yet")
	end()
	var state string
	require.NoError(t, beside.QueryRow(t.Context(), `SELECT state FROM river_job WHERE id = $1`, id).Scan(&state))
	require.Equal(t, "running", state, "what was not stored is rescued, and worked again")
	require.Empty(t, b.pauses(t))
}

func TestADatabaseThatIsAwayAtTheStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	l, across, _ := newLine(t)
	l.sever()
	b := setup(t, across, idle)
	b.begin(t)
	b.said(t, "the queue cannot start yet")
	l.mend()
	b.insert(t, "x", nil)
	<-b.events
}

func TestAStopEndsTheWaitForADatabase(t *testing.T) {
	t.Parallel()
	l, across, _ := newLine(t)
	l.sever()
	// Nobody moves this clock: the wait between two starts ends with the stop, or never.
	b := setup(t, across, idle, func(c *queue.Config) { c.Clock = clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)) })
	end := b.begin(t)
	b.said(t, "the queue cannot start yet")
	end()
}

func TestAQueueWithoutTablesDoesNotStart(t *testing.T) {
	t.Parallel()
	b := setup(t, pool(t), idle, func(c *queue.Config) { c.Schema = "elsewhere" })
	require.ErrorContains(t, b.client.Run(t.Context()), "start the queue")
}

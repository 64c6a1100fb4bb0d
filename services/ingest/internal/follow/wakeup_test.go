package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// logRecorder receives log records as text.
type logRecorder chan string

func (n logRecorder) Write(b []byte) (int, error) {
	n <- string(b)
	return len(b), nil
}

func open(t *testing.T, addr string, clk clock.Clock) (*Wakeups, logRecorder) {
	t.Helper()
	n := make(logRecorder, 10_000)
	l, err := NewWakeups(secret.New("redis://"+addr+"/0"), clk, slog.New(slog.NewTextHandler(n, nil)))
	require.NoError(t, err)
	return l, n
}

// start runs the given function until the test ends or stop is called. stop waits until the function has returned.
func start(t *testing.T, part func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// requireSoon waits until the condition is true, for at most a minute. A call to Redis must finish within 50 ms, so
// on a slow machine several calls may fail before one succeeds.
func requireSoon(t *testing.T, is func() bool) {
	t.Helper()
	require.Eventually(t, is, time.Minute, 5*time.Millisecond)
}

func TestWakeups_Notify_publishesRuns(t *testing.T) {
	t.Parallel()
	s := serve(t)
	clk := clock.NewFake(fixtures.Now())
	l, _ := open(t, s.listener.Addr().String(), clk)
	start(t, l.publish)
	requireSoon(t, func() bool {
		clk.Advance(breakFor)
		l.Notify([]string{"run_1"})
		words := s.next()
		return len(words) == 3 && words[0] == "publish" && words[1] == channel && words[2] == "run_1"
	})
}

func TestWakeups_Notify_neverBlocksAndIsBounded(t *testing.T) {
	t.Parallel()
	l, _ := open(t, "127.0.0.1:1", clock.NewFake(fixtures.Now()))
	for i := range 3 * maxPending { // publish is not running
		l.Notify([]string{fmt.Sprintf("run_%d", i)})
	}
	require.Len(t, l.take(), maxPending, "further runs are left to Postgres")
	require.Empty(t, l.take())
	l.Notify([]string{"run_1", "run_2"})
	l.Notify([]string{"run_2", "run_3"})
	runs := l.take()
	slices.Sort(runs)
	require.Equal(t, []string{"run_1", "run_2", "run_3"}, runs, "the queue has room again, and each run is queued once")
}

func TestWakeups_Run_wakesNamedRuns(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l, _ := open(t, s.listener.Addr().String(), clock.Real())
	woken := make(chan []string, 10_000)
	start(t, func(ctx context.Context) error { return l.Run(ctx, func(runs []string) { woken <- runs }) })
	s.until("subscribe")
	require.Equal(t, []string{"run_1", "run_2"}, s.deliver(woken, "run_1,run_2"))
	s.cut()
	s.until("subscribe")
	require.Equal(t, []string{"run_3"}, s.deliver(woken, "run_3"), "a lost subscription is established again")
}

func TestWakeups_subscribe_replacesSilentSubscription(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l, _ := open(t, s.listener.Addr().String(), clock.Real())
	woken := make(chan []string, 10_000)
	start(t, func(ctx context.Context) error { return l.subscribe(ctx, func(runs []string) { woken <- runs }) })
	s.until("subscribe")
	s.until("ping")
	s.deliver(woken, "run_1")
	s.set(true, false)
	s.until("subscribe") // on another connection, which also gets no reply
	s.set(false, false)
	s.deliver(woken, "run_2")
}

func TestWakeups_publish_pausesAfterFailures(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.set(false, true)
	clk := clock.NewFake(fixtures.Now())
	l, notes := open(t, s.listener.Addr().String(), clk)
	start(t, l.publish)
	requireSoon(t, func() bool { l.Notify([]string{"run_1"}); return len(notes) > 0 })
	require.Contains(t, <-notes, "publishing to Redis is paused after repeated failures")
	s.set(false, false)
	for _, run := range []string{"run_2", "behind"} { // publish takes each run, and drops it because publishing is paused
		l.Notify([]string{run})
		requireSoon(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.runs) == 0
		})
	}
	var published []string
	requireSoon(t, func() bool {
		clk.Advance(breakFor)
		l.Notify([]string{"run_3"})
		if words := s.next(); len(words) == 3 && words[0] == "publish" {
			published = append(published, words[2])
		}
		return strings.Contains(strings.Join(published, ","), "run_3")
	})
	require.NotContains(t, strings.Join(published, ","), "run_2", "runs that are queued while publishing is paused are dropped")
}

func TestWakeups_breakerCountsFailuresInARow(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(fixtures.Now())
	l, notes := open(t, "127.0.0.1:1", clk)
	fails := func(n int) {
		for range n {
			l.count(t.Context(), io.EOF)
		}
	}
	fails(breakAfter - 1)
	l.count(t.Context(), nil)
	fails(breakAfter - 1)
	require.False(t, l.open(), "a success resets the count")
	require.Empty(t, notes)
	fails(1)
	require.True(t, l.open())
	require.Contains(t, <-notes, "EOF")
	clk.Advance(breakFor - time.Microsecond)
	require.True(t, l.open())
	clk.Advance(time.Microsecond)
	require.False(t, l.open())
	fails(breakAfter)
	require.True(t, l.open())
}

func TestWakeups_Run_endsWithContext(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		s := serve(t)
		s.set(silent, false)
		l, _ := open(t, s.listener.Addr().String(), clock.Real())
		stop := start(t, func(ctx context.Context) error { return l.Run(ctx, func([]string) {}) })
		l.Notify([]string{"run_1"})
		<-s.commands
		stop()
		requireSoon(t, func() bool { return s.open() == 0 })
	}
}

func TestNewWakeups_errorHidesPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://:hunter2%zz@h", "http://hunter2", "redis://:hunter2@h/notanumber", ""} {
		_, err := NewWakeups(secret.New(url), clock.Real(), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "SERVICE_REDIS_URL", url)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

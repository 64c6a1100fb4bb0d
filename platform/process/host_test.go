package process_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/process"
)

// eventLog records events in order.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (d *eventLog) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *eventLog) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

// worker returns a worker that records its calls and stops when its context ends.
func (d *eventLog) worker(name string) process.Worker {
	return process.Worker{
		Name: name,
		Run: func(ctx context.Context) error {
			d.note("run " + name)
			<-ctx.Done()
			d.note("end " + name)
			return ctx.Err()
		},
		Ready: func(context.Context) error { d.note("ready " + name); return nil },
		Stop:  func(context.Context) error { d.note("stop " + name); return nil },
	}
}

type hostTest struct {
	host    process.Host
	signals chan os.Signal
	events  *eventLog
	log     *bytes.Buffer
	result  chan error
}

func newHostTest(names ...string) *hostTest {
	r := &hostTest{signals: make(chan os.Signal, 2), events: &eventLog{}, log: &bytes.Buffer{}, result: make(chan error, 1)}
	r.host = process.Host{
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Signals: r.signals, Closers: &process.Closers{},
		StopTimeout: 5 * time.Second, ReadyTimeout: 10 * time.Second,
		Ready: func(context.Context) error { r.events.note("all ready"); return nil },
		Drain: func(context.Context) { r.events.note("drain") },
	}
	for _, name := range names {
		r.host.Workers = append(r.host.Workers, r.events.worker(name))
	}
	r.host.Closers.Add("pool", func(context.Context) error { r.events.note("close pool"); return nil })
	return r
}

func (r *hostTest) start(ctx context.Context) { go func() { r.result <- r.host.Run(ctx) }() }

func TestHost_Run_startsInOrderAndStopsInReverse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a", "b", "c")
		// Ready waits until Run has begun, so that the order of the two is fixed.
		for i := range r.host.Workers {
			w := &r.host.Workers[i]
			ready := w.Ready
			w.Ready = func(ctx context.Context) error { synctest.Wait(); return ready(ctx) }
		}
		r.start(t.Context())
		time.Sleep(time.Second)
		r.signals <- syscall.SIGTERM
		require.NoError(t, <-r.result)
		require.Equal(t, []string{
			"run a", "ready a", "run b", "ready b", "run c", "ready c", "all ready", "drain",
			"stop c", "end c", "stop b", "end b", "stop a", "end a", "close pool",
		}, r.events.all())
		require.Contains(t, r.log.String(), "terminated")
	})
}

func TestHost_Run_waitsUntilWorkerIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("slow", "next")
		begin := time.Now()
		r.host.Workers[0].Ready = func(context.Context) error {
			if time.Since(begin) < 3*time.Second {
				return errors.New("still opening")
			}
			return nil
		}
		r.start(t.Context())
		time.Sleep(2900 * time.Millisecond)
		require.Equal(t, []string{"run slow"}, r.events.all())
		time.Sleep(200 * time.Millisecond)
		require.Contains(t, r.events.all(), "all ready")
		r.signals <- os.Interrupt
		require.NoError(t, <-r.result)
	})
}

func TestHost_Run_readyTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a", "stuck", "never")
		r.host.Workers[1].Ready = func(context.Context) error { return errors.New("no disk") }
		begin := time.Now()
		r.start(t.Context())
		err := <-r.result
		require.EqualError(t, err, "stuck: not ready after 10s: no disk")
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.Equal(t, []string{"stop stuck", "end stuck", "stop a", "end a", "close pool"}, r.events.all()[3:])
		require.NotContains(t, r.events.all(), "drain", "the host was never ready")
	})
}

func TestHost_Run_stopsAtFirstFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(context.Context) error
		want string
	}{
		"error": {func(context.Context) error { time.Sleep(time.Second); return errors.New("disk gone") }, "bad: disk gone"},
		"end":   {func(context.Context) error { return nil }, "bad: returned before it was stopped"},
		"panic": {func(context.Context) error { panic("index") }, "bad: panic: index"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newHostTest("a", "bad", "c")
				r.host.Workers[1].Run, r.host.Workers[1].Ready = c.run, nil
				r.start(t.Context())
				err := <-r.result
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, r.events.all(), "stop bad", "the worker has already ended")
				require.Subset(t, r.events.all(), []string{"end a", "close pool"})
			})
		})
	}
}

func TestHost_Run_signalDuringStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a", "opening", "never")
		r.host.Workers[1].Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		r.start(t.Context())
		time.Sleep(time.Second)
		r.signals <- os.Interrupt
		require.NoError(t, <-r.result)
		require.NotContains(t, r.events.all(), "run never")
		require.NotContains(t, r.events.all(), "all ready")
		require.NotContains(t, r.events.all(), "drain")
		require.Contains(t, r.events.all(), "end opening")
	})
}

func TestHost_Run_stopsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a")
		r.host.Workers[0].Stop = func(ctx context.Context) error {
			require.NoError(t, ctx.Err(), "Stop has its own context")
			r.events.note("stop a")
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.start(ctx)
		time.Sleep(time.Second)
		cancel()
		require.NoError(t, <-r.result)
		require.Equal(t, []string{"drain", "stop a", "end a", "close pool"}, r.events.all()[len(r.events.all())-4:])
	})
}

func TestHost_Run_readyFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a")
		r.host.Ready = func(context.Context) error { return errors.New("write the ready file") }
		r.start(t.Context())
		require.EqualError(t, <-r.result, "write the ready file")
		require.Contains(t, r.events.all(), "close pool")
	})
}

func TestHost_Run_errorNamesHangingWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a", "deaf", "c")
		hold := make(chan struct{})
		r.host.Workers[1].Run = func(context.Context) error { <-hold; return nil }
		r.host.Workers[1].StopTimeout = 2 * time.Second
		r.start(t.Context())
		time.Sleep(time.Second)
		begin := time.Now()
		r.signals <- os.Interrupt
		err := <-r.result
		require.ErrorIs(t, err, process.ErrNotStopped)
		require.EqualError(t, err, "deaf: did not stop in time (2s)")
		require.Equal(t, 3*time.Second, time.Since(begin), "the stop timeout plus one second after the cancellation")
		require.Contains(t, r.events.all(), "end a", "the other workers stop anyway")
		close(hold)
	})
}

func TestHost_Run_cancelsWorkerAfterStopTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("streams")
		r.host.Workers[0].Stop = func(ctx context.Context) error { <-ctx.Done(); return nil }
		r.start(t.Context())
		time.Sleep(time.Second)
		begin := time.Now()
		r.signals <- os.Interrupt
		require.NoError(t, <-r.result)
		require.Equal(t, 5*time.Second, time.Since(begin))
		require.Contains(t, r.events.all(), "end streams")
	})
}

func TestHost_Run_joinsErrorsOfStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a", "b")
		r.host.Workers[0].Stop = func(context.Context) error { return errors.New("flush") }
		r.host.Closers.Add("files", func(context.Context) error { return errors.New("sync") })
		r.start(t.Context())
		time.Sleep(time.Second)
		r.signals <- os.Interrupt
		err := <-r.result
		require.ErrorContains(t, err, "stop a: flush")
		require.ErrorContains(t, err, "close files: sync")
	})
}

func TestHost_Run_hangingCloser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a")
		hold := make(chan struct{})
		r.host.Closers.Add("hung", func(context.Context) error { <-hold; return nil })
		r.start(t.Context())
		r.signals <- os.Interrupt
		require.EqualError(t, <-r.result, "closers: did not stop in time (5s)")
		close(hold)
	})
}

func TestHost_Run_secondSignalKills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a", "deaf")
		hold := make(chan struct{})
		r.host.Workers[1].Run = func(context.Context) error { <-hold; return nil }
		r.host.StopTimeout = time.Hour
		r.start(t.Context())
		time.Sleep(time.Second)
		begin := time.Now()
		r.signals <- os.Interrupt
		time.Sleep(time.Second)
		require.Empty(t, r.result, "the first signal waits for the workers")
		r.signals <- os.Interrupt
		require.ErrorIs(t, <-r.result, process.ErrKilled)
		require.Equal(t, time.Second, time.Since(begin))
		close(hold)
	})
}

func TestHost_Run_failureAndOneSignalDoNotKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a", "bad")
		r.host.Workers[0].Stop = func(context.Context) error { time.Sleep(time.Second); return nil }
		r.host.Workers[1].Run = func(context.Context) error { time.Sleep(time.Second); return errors.New("x") }
		r.start(t.Context())
		time.Sleep(1500 * time.Millisecond)
		r.signals <- os.Interrupt
		err := <-r.result
		require.EqualError(t, err, "bad: x")
		require.Contains(t, r.events.all(), "end a")
	})
}

func TestHost_Run_drainsWorkersBeforeHost(t *testing.T) {
	t.Parallel()
	var order []string
	ctx, cancel := context.WithCancel(t.Context())
	h := &process.Host{
		Log: slog.New(slog.DiscardHandler),
		Workers: []process.Worker{{
			Name: "one", Run: func(ctx context.Context) error { <-ctx.Done(); return nil },
			Drain: func() { order = append(order, "worker") },
			Stop:  func(context.Context) error { order = append(order, "stop"); return nil },
		}},
		Ready: func(context.Context) error { cancel(); return nil },
		Drain: func(context.Context) { order = append(order, "host") },
	}
	require.NoError(t, h.Run(ctx))
	require.Equal(t, []string{"worker", "host", "stop"}, order)
}

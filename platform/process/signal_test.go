package process_test

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/process"
)

func TestSignals(t *testing.T) {
	c, stop := process.Signals()
	defer stop()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	require.Equal(t, syscall.SIGTERM, <-c)
}

// The context of a stop contains the signal that caused the stop, if any.
func TestHost_Run_stopContextHasSignal(t *testing.T) {
	t.Parallel()
	for _, want := range []os.Signal{os.Interrupt, syscall.SIGTERM, nil} {
		synctest.Test(t, func(t *testing.T) {
			r := newHostTest("a")
			var by os.Signal = syscall.SIGUSR1
			stop := r.host.Workers[0].Stop
			r.host.Workers[0].Stop = func(ctx context.Context) error {
				by = process.StopSignal(ctx)
				return stop(ctx)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r.start(ctx)
			synctest.Wait()
			if want == nil {
				cancel()
			} else {
				r.signals <- want
			}
			require.NoError(t, <-r.result)
			require.Equal(t, want, by)
		})
	}
}

func TestSignals_buffersTwo(t *testing.T) {
	// The channel has no reader yet, as during the setup of a host.
	for name, second := range map[string]syscall.Signal{"same signal": syscall.SIGINT, "other signal": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			c, stop := process.Signals()
			defer stop()
			for n, s := range []syscall.Signal{syscall.SIGINT, second} {
				require.NoError(t, syscall.Kill(os.Getpid(), s))
				require.Eventually(t, func() bool { return len(c) == n+1 }, time.Minute, time.Millisecond, "signal %d must not be lost", n+1)
			}
			require.Equal(t, []os.Signal{syscall.SIGINT, second}, []os.Signal{<-c, <-c})
		})
	}
}

func TestHost_Run_twoBufferedSignalsKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHostTest("a")
		hold := make(chan struct{})
		r.host.Workers[0].Ready = func(context.Context) error { <-hold; return nil }
		r.signals <- os.Interrupt
		r.signals <- os.Interrupt
		r.start(t.Context())
		require.ErrorIs(t, <-r.result, process.ErrKilled)
		close(hold)
	})
}

// blockedLog is a log whose writes block, like a paused terminal.
type blockedLog chan struct{}

func (s blockedLog) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

func TestHost_Run_secondSignalKillsWhileLogBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, pipe := newHostTest("a"), make(blockedLog)
		r.host.Log = slog.New(slog.NewTextHandler(pipe, nil))
		r.start(t.Context())
		r.signals <- os.Interrupt
		synctest.Wait()
		require.Empty(t, r.result, "the first signal waits for the workers")
		r.signals <- os.Interrupt
		synctest.Wait()
		require.Len(t, r.result, 1, "the second signal does not wait")
		require.ErrorIs(t, <-r.result, process.ErrKilled)
		close(pipe)
	})
}

// hung returns a worker that ignores every request to stop.
func hung(name string, end <-chan struct{}) process.Worker {
	wait := func(context.Context) error { <-end; return nil }
	return process.Worker{Name: name, Run: wait, Stop: wait}
}

func TestHost_Run_stopLimit(t *testing.T) {
	t.Parallel()
	limits := map[os.Signal]time.Duration{os.Interrupt: 3 * time.Second, syscall.SIGTERM: 9 * time.Second, nil: 5 * time.Second}
	for by, limit := range limits {
		synctest.Test(t, func(t *testing.T) {
			end := make(chan struct{})
			defer close(end)
			r := newHostTest("prompt")
			r.host.Workers = append([]process.Worker{hung("first", end), hung("second", end)}, r.host.Workers...)
			r.host.StopTimeout = time.Minute
			r.host.Drain = func(context.Context) { time.Sleep(time.Hour) }
			r.host.StopLimit = func(got os.Signal) time.Duration {
				require.Equal(t, by, got)
				return limit
			}
			r.host.Closers.Add("hung", func(context.Context) error { <-end; return nil })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := time.Now()
			r.start(ctx)
			synctest.Wait()
			if by == nil {
				cancel()
			} else {
				r.signals <- by
			}
			err := <-r.result
			require.LessOrEqual(t, time.Since(began), time.Hour+limit, "the drain does not count")
			require.Greater(t, time.Since(began), time.Hour+limit/2, "the workers could use their time")
			for _, name := range []string{"first", "second", "closers"} {
				require.ErrorContains(t, err, name+": "+process.ErrNotStopped.Error())
			}
			require.Contains(t, r.events.all(), "end prompt")
		})
	}
}

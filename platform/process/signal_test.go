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
				require.Eventually(t, func() bool { return len(c) == n+1 }, time.Minute, time.Millisecond, "signal %d is lost", n+1)
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

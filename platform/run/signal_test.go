package run_test

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/run"
)

func TestSignalsHandsOnTheProcessSignals(t *testing.T) {
	c, stop := run.Signals()
	defer stop()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	require.Equal(t, syscall.SIGTERM, <-c)
}

func TestTwoSignalsAreKeptForAReaderThatIsBusy(t *testing.T) {
	// With nobody reading, as while a host is being made.
	for name, second := range map[string]syscall.Signal{"the same again": syscall.SIGINT, "another": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			c, stop := run.Signals()
			defer stop()
			for n, s := range []syscall.Signal{syscall.SIGINT, second} {
				require.NoError(t, syscall.Kill(os.Getpid(), s))
				require.Eventually(t, func() bool { return len(c) == n+1 }, time.Minute, time.Millisecond, "signal %d is lost", n+1)
			}
			require.Equal(t, []os.Signal{syscall.SIGINT, second}, []os.Signal{<-c, <-c})
		})
	}
}

func TestTwoSignalsThatWaitedForTheHostKill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig("a")
		hold := make(chan struct{})
		r.host.Workers[0].Ready = func(context.Context) error { <-hold; return nil }
		r.signals <- os.Interrupt
		r.signals <- os.Interrupt
		r.start(t.Context())
		require.ErrorIs(t, <-r.result, run.ErrKilled)
		close(hold)
	})
}

// stuck is a log whose reader has stopped reading, like a terminal that was paused.
type stuck chan struct{}

func (s stuck) Write(p []byte) (int, error) {
	<-s
	return len(p), nil
}

func TestASecondSignalKillsWhereTheLogIsNotReadAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, pipe := newRig("a"), make(stuck)
		r.host.Log = slog.New(slog.NewTextHandler(pipe, nil))
		r.start(t.Context())
		r.signals <- os.Interrupt
		synctest.Wait()
		require.Empty(t, r.result, "one signal waits")
		r.signals <- os.Interrupt
		synctest.Wait()
		require.Len(t, r.result, 1, "a second one waits for nothing")
		require.ErrorIs(t, <-r.result, run.ErrKilled)
		close(pipe)
	})
}

package allinone

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/process"
)

// stopContext runs a host until the signal arrives or, without one, until a worker fails. It returns the context with
// which the host stopped its other worker.
func stopContext(t *testing.T, signal os.Signal) context.Context {
	t.Helper()
	signals := make(chan os.Signal, 1)
	failed := errors.New("failed")
	var got context.Context
	host := &process.Host{Log: slog.New(slog.DiscardHandler), Signals: signals, Workers: []process.Worker{
		{Name: "agent", Run: func(ctx context.Context) error { <-ctx.Done(); return nil }, Stop: func(ctx context.Context) error {
			got = ctx
			return nil
		}},
		{Name: "database", Run: func(ctx context.Context) error {
			if signal == nil {
				return failed
			}
			signals <- signal
			<-ctx.Done()
			return nil
		}},
	}}
	if err := host.Run(t.Context()); signal == nil {
		require.ErrorIs(t, err, failed)
	} else {
		require.NoError(t, err)
	}
	return got
}

func TestEndsWorks(t *testing.T) {
	t.Parallel()
	require.True(t, endsWorks(stopContext(t, os.Interrupt)))
	require.False(t, endsWorks(stopContext(t, syscall.SIGTERM)), "works must outlive a restart by a service manager")
	require.False(t, endsWorks(stopContext(t, nil)), "works must outlive a failed part of the process")
}

func TestDaemon_graced(t *testing.T) {
	t.Parallel()
	d, _ := newPartialDaemon(t, "")
	d.settings.Common.Stop.StopGrace = 40 * time.Second
	for _, c := range []struct {
		signal       os.Signal
		grace, limit time.Duration
	}{
		{syscall.SIGTERM, 40 * time.Second, 46 * time.Second},
		{os.Interrupt, interruptGrace, interruptLimit},
		{nil, interruptGrace, 46 * time.Second},
	} {
		ctx := context.WithoutCancel(stopContext(t, c.signal))
		var left time.Duration
		w := d.graced(process.Worker{Stop: func(ctx context.Context) error {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return nil
		}}, slog.New(slog.DiscardHandler))
		require.NoError(t, w.Stop(ctx))
		require.InDelta(t, c.grace.Seconds(), left.Seconds(), 0.4, c.signal)
		require.Equal(t, c.limit, d.stopLimit(c.signal), c.signal)
	}
}

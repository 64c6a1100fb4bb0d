package allinone

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"

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
	require.True(t, endsWorks(stopContext(t, syscall.SIGTERM)))
	require.False(t, endsWorks(stopContext(t, nil)), "works outlive a failed part of the process")
}

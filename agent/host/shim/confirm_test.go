package shim_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// A command that a batch system has held back starts only if the control plane still wants it.
func TestConfirm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change      func(s *leaseServer, dir string)
		unconfirmed shim.Cause
	}{
		"wanted":          {func(*leaseServer, string) {}, ""},
		"without lease":   {func(_ *leaseServer, dir string) { _ = os.Remove(filepath.Join(dir, "lease.json")) }, ""},
		"to be stopped":   {func(s *leaseServer, _ string) { s.stop.Store(true) }, shim.CauseOrder},
		"given up":        {func(s *leaseServer, _ string) { s.refusal.Store(givenUp); s.refuse.Store(true) }, shim.CauseOrder},
		"not reachable":   {func(s *leaseServer, _ string) { s.Close() }, shim.CauseSilence},
		"a proxy refuses": {func(s *leaseServer, _ string) { s.refuse.Store(true) }, shim.CauseSilence},
		"not reachable and stopped": {func(s *leaseServer, dir string) {
			s.Close()
			_ = shim.Control{}.RequestStop(dir, 0)
		}, shim.CauseOrder},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir, now := newLeaseServer(t), t.TempDir(), clock.NewFake(time.Unix(1_000, 0))
			require.NoError(t, shim.WriteLease(dir, s.lease()))
			c.change(s, dir)
			done := make(chan error, 1)
			go func() { done <- shim.Confirm(t.Context(), dir, now, time.Minute) }()
			err := advanceUntil(t, now, done)
			if c.unconfirmed == "" {
				require.NoError(t, err)
				return
			}
			var unconfirmed *shim.UnconfirmedError
			require.ErrorAs(t, err, &unconfirmed)
			require.Equal(t, c.unconfirmed, unconfirmed.Cause)
			require.NoError(t, unconfirmed.Abstain(dir, now.Now()))
			var exit shim.Exit
			require.NoError(t, shim.ReadExit(dir, &exit))
			require.True(t, exit.StartedAt.IsZero(), "nothing was started")
			require.Equal(t, []any{-1, true, c.unconfirmed, ""}, []any{exit.Code, exit.Stopped, exit.Cause, exit.Failure})
		})
	}
}

// advanceUntil lets time pass whenever a timer waits, until there is a result.
func advanceUntil(t *testing.T, now *clock.Fake, done <-chan error) error {
	t.Helper()
	for {
		waiting := make(chan error, 1)
		go func() { waiting <- now.Await(t.Context(), 1) }()
		select {
		case err := <-done:
			return err
		case err := <-waiting:
			require.NoError(t, err)
			now.Advance(10 * time.Second)
		}
	}
}

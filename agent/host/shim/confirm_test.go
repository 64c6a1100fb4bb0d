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
		change func(s *leaseServer, dir string)
		doubt  shim.Cause
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
			if c.doubt == "" {
				require.NoError(t, err)
				return
			}
			var doubt *shim.Doubt
			require.ErrorAs(t, err, &doubt)
			require.Equal(t, c.doubt, doubt.Cause)
			require.NoError(t, doubt.Abstain(dir, now.Now()))
			var exit shim.Exit
			require.NoError(t, shim.ReadExit(dir, &exit))
			require.Equal(t, []any{-1, true, c.doubt, ""}, []any{exit.Code, exit.Stopped, exit.Cause, exit.Failure})
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

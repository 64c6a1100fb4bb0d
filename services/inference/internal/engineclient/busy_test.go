package engineclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// briefly is the silence and the length of a probe in these tests, because probes take real time.
const briefly = 60 * time.Millisecond

// suspect sends a call, and returns after the engine was suspected and probed once.
func (h *watchHarness) suspect(d *Watchdog) {
	h.t.Helper()
	d.After = briefly
	h.call(d, "/v1/a")
	h.pass(briefly)
	h.look(d)
	require.Equal(h.t, 1, h.rows())
	h.look(d)
	require.Equal(h.t, 1, h.failed())
}

// failed returns how many probes have failed.
func (h *watchHarness) failed() (n int) {
	h.t.Helper()
	require.NoError(h.t, h.pool.QueryRow(h.t.Context(), `SELECT failed_probes FROM engine_silence`).Scan(&n))
	return n
}

// An engine that serves one call at a time, and has no counters, cannot respond to probes during a long call. It must
// not be replaced while the call may wait.
func TestWatchdog_engineBusyWithOneCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		client Timeouts
		target Waits
		wait   time.Duration
	}{
		"settings":           {Timeouts{FirstByte: 10 * time.Minute, Idle: time.Minute}, Waits{}, 10 * time.Minute},
		"pause of a stream":  {Timeouts{FirstByte: time.Minute, Idle: 10 * time.Minute}, Waits{}, 10 * time.Minute},
		"long revision":      {Timeouts{FirstByte: time.Minute, Idle: time.Minute}, Waits{FirstByte: time.Hour}, time.Hour},
		"impatient revision": {Timeouts{FirstByte: time.Hour, Idle: time.Hour}, Waits{FirstByte: time.Minute, Idle: time.Minute}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newWatchHarness(t, never)
			a := h.replica("a")
			target := h.target()
			target.Waits = tc.target
			a.Targets = func() []Target { return []Target{target} }
			a.Client.Timeouts.FirstByte, a.Client.Timeouts.Idle = tc.client.FirstByte, tc.client.Idle
			h.suspect(a)
			h.pass(tc.wait - 30*time.Second)
			for range 3 {
				h.look(a)
			}
			require.Equal(t, 1, h.failed())
			require.Empty(t, h.found.all)
			h.pass(30 * time.Second)
			h.look(a) // probes it
			require.Equal(t, 2, h.failed())
			h.look(a)
			require.Len(t, h.found.all, 1, "an engine that is silent for longer than its calls may wait must be replaced")
		})
	}
}

// Counters that stand still show that the engine hangs.
func TestWatchdog_engineWhoseCountersStandStill(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, never)
	a, b := h.replica("a"), h.replica("b")
	b.After = briefly
	a.Client.Timeouts.FirstByte, b.Client.Timeouts.FirstByte = time.Hour, time.Hour
	h.suspect(a)
	a.stall(execution{"rep_1", h.engine.URL})
	h.look(b)
	require.Equal(t, 1, h.failed(), "only the replica that has seen the counters knows that the engine does not work")
	h.look(a)
	require.Equal(t, 2, h.failed())
	h.look(b)
	require.Len(t, h.found.all, 1)
	h.look(a)
	require.Empty(t, a.stalled, "nothing must be kept of an engine that is not suspected")
}

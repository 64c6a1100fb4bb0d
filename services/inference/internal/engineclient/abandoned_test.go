package engineclient

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// abandon sends a call to the engine and cancels it when the engine has begun to work on it.
func (h *watchHarness) abandon(d *Watchdog) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	before := h.began.Load()
	var call sync.WaitGroup
	call.Go(func() {
		_, err := d.Client.Do(ctx, h.target().Engine, Request{Method: http.MethodPost, Target: "/v1/a"})
		assert.ErrorIs(h.t, err, context.Canceled)
	})
	require.Eventually(h.t, func() bool { return h.began.Load() > before }, time.Minute, time.Millisecond)
	cancel()
	call.Wait()
}

// The engine still works on calls whose callers have left, and a probe waits behind these calls. The counters in the
// engine's metrics decide whether the engine counts as busy.
func TestWatchdog_busyEngine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format string
		want   Verdict
	}{
		"tokens":   {"# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total %d\n", Busy},
		"labels":   {`vllm:generation_tokens_total{model_name="a b"} %d.0` + "\n", Busy},
		"requests": {"requests_total %d\nllamacpp:tokens_predicted_total 7\n", Stalled},
		"gauge":    {"llamacpp:predicted_tokens_seconds %d\nllamacpp:tokens_predicted_total 7\n", Stalled},
		"no value": {"tokens_total\nx %d\n", Silent},
		"none":     {"", Silent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			h := newWatchHarness(t, func(path string) bool { return path == "/metrics" })
			h.metrics = func() string { return fmt.Sprintf(c.format, calls.Add(1)) }
			a := h.replica("a")
			h.call(a, "/v1/a")
			h.pass(watchAfter)
			require.Equal(t, c.want, a.Client.Probe(t.Context(), h.target(), 2*time.Second))
			require.Equal(t, c.want == Busy, len(a.Client.silences.silent(watchAfter, h.clock.Now())) == 0)
		})
	}
}

// A hung engine may still respond to a request for its metrics, but too late.
func TestClient_Probe_lateMetrics(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, never)
	late := make(chan struct{})
	t.Cleanup(func() { close(late) })
	h.works = func(<-chan struct{}) { <-late }
	a := h.replica("a")
	_, counts := a.Client.progress(t.Context(), h.target(), metricsShare*100*time.Millisecond)
	require.False(t, counts)
	require.Empty(t, a.Client.abandoned.open)
}

// The engine does not notice that a caller has left and works on the call. The byte that it then sends ends the
// silence.
func TestClient_abandonedCall(t *testing.T) {
	t.Parallel()
	working := make(chan struct{})
	release := sync.OnceFunc(func() { close(working) })
	h := newWatchHarness(t, never)
	t.Cleanup(release)
	h.works = func(<-chan struct{}) { <-working }
	a := h.replica("a")
	h.abandon(a)
	h.pass(watchAfter)
	h.call(a, "/v1/b")
	a.Client.hearAbandoned()
	require.Len(t, a.Client.abandoned.open, 1)
	require.Len(t, a.Client.silences.silent(watchAfter, h.clock.Now()), 1)
	release()
	require.Eventually(t, func() bool {
		a.Client.hearAbandoned()
		return len(a.Client.silences.silent(watchAfter, h.clock.Now())) == 0
	}, time.Minute, time.Millisecond)
	// The first byte closes a connection, that of the second call too, which can arrive later.
	require.Eventually(t, func() bool { a.Client.hearAbandoned(); return len(a.Client.abandoned.open) == 0 }, time.Minute, time.Millisecond)
}

// An engine may send an error when it notices that a caller has left. Such an error does not show that it works.
func TestClient_abandonedCallThatEngineEnds(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, never)
	a := h.replica("a")
	h.abandon(a)
	h.call(a, "/v1/b")
	h.clock.Advance(reaction - 1)
	require.Eventually(t, func() bool { a.Client.hearAbandoned(); return len(a.Client.abandoned.open) == 0 }, time.Minute, time.Millisecond)
	h.clock.Advance(watchAfter)
	require.Len(t, a.Client.silences.silent(watchAfter, h.clock.Now()), 1)
}

// The connections of abandoned calls are limited in number and in age.
func TestClient_abandonedCallsAreBounded(t *testing.T) {
	t.Parallel()
	h := newWatchHarness(t, never)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	h.works = func(<-chan struct{}) { <-over }
	a := h.replica("a")
	var calls sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range maxAbandoned + 20 {
		calls.Go(func() {
			_, err := a.Client.Do(ctx, h.target().Engine, Request{Method: http.MethodPost, Target: "/v1/a"})
			assert.Error(t, err)
		})
	}
	require.Eventually(t, func() bool { return h.began.Load() == maxAbandoned+20 }, time.Minute, time.Millisecond)
	cancel()
	calls.Wait()
	kept := func() int {
		a.Client.abandoned.mu.Lock()
		defer a.Client.abandoned.mu.Unlock()
		return len(a.Client.abandoned.open[h.target().Engine])
	}
	require.Equal(t, maxAbandoned, kept())
	h.pass(time.Minute)
	require.NoError(t, a.Client.CloseStale(t.Context()))
	require.Zero(t, kept())
}

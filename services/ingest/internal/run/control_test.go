package run

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// fakeJobs returns the signals of runs and records each call.
type fakeJobs struct {
	mu      sync.Mutex
	signals map[string]string
	calls   chan string // ids of runs
	err     error
}

func newFakeJobs() *fakeJobs {
	return &fakeJobs{signals: map[string]string{}, calls: make(chan string, 100)}
}

func (d *fakeJobs) next(_ context.Context, run string, _ int32) (Signal, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls <- run
	id := d.signals[run]
	if d.err != nil || id == "" {
		return Signal{Signal: NoSignal}, d.err
	}
	return Signal{Signal: "checkpoint", ID: id}, nil
}

func (d *fakeJobs) set(run, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.signals[run] = id
}

// result is what Await returned.
type result struct {
	Signal
	err error
}

// awaitAsync calls Await in a goroutine.
func (b *ControlBoard) awaitAsync(ctx context.Context, w ControlWaiter, wait time.Duration) chan result {
	out := make(chan result, 1)
	go func() {
		s, err := b.Await(ctx, w, wait)
		out <- result{s, err}
	}()
	return out
}

func TestControlBoard_Await_wokenByOwnRunOnly(t *testing.T) {
	t.Parallel()
	d, clk := newFakeJobs(), clock.NewFake(time.Unix(0, 0))
	b := NewControlBoard(clk, d.next)
	one := b.awaitAsync(t.Context(), ControlWaiter{RunID: "run_1"}, time.Minute)
	require.Equal(t, "run_1", <-d.calls)
	b.Set(map[string]string{"run_2": "sig_2"})
	require.Empty(t, d.calls, "a signal of another run does not cause a call")
	d.set("run_1", "sig_1")
	b.Set(map[string]string{"run_1": "sig_1", "run_2": "sig_2"})
	got := <-one
	require.NoError(t, got.err)
	require.Equal(t, "sig_1", got.ID)
	require.Empty(t, b.waiting)
	require.Zero(t, b.count)
}

func TestControlBoard_Await_ignoresKnownSignal(t *testing.T) {
	t.Parallel()
	d, clk := newFakeJobs(), clock.NewFake(time.Unix(0, 0))
	b := NewControlBoard(clk, d.next)
	d.set("run_1", "sig_1")
	b.Set(map[string]string{"run_1": "sig_1"})
	one := b.awaitAsync(t.Context(), ControlWaiter{RunID: "run_1", After: "sig_1"}, time.Minute)
	<-d.calls
	b.Set(map[string]string{"run_1": "sig_1"})
	require.Empty(t, d.calls, "an unchanged signal does not cause a call")
	d.set("run_1", "stop.1")
	b.Set(map[string]string{"run_1": "stop.1"})
	require.Equal(t, "stop.1", (<-one).ID)
}

// Set is never called, as if the stream from the jobs service were down. A wait then polls the jobs service and returns
// the current signal at its end.
func TestControlBoard_Await_pollsWithoutStream(t *testing.T) {
	t.Parallel()
	d, clk := newFakeJobs(), clock.NewFake(time.Unix(0, 0))
	b := NewControlBoard(clk, d.next)
	one := b.awaitAsync(t.Context(), ControlWaiter{RunID: "run_1"}, time.Minute)
	<-d.calls
	d.set("run_1", "sig_1")
	require.NoError(t, clk.Await(t.Context(), 2))
	clk.Advance(lookAgain)
	require.Equal(t, "sig_1", (<-one).ID)

	d.set("run_1", "")
	one = b.awaitAsync(t.Context(), ControlWaiter{RunID: "run_1"}, time.Second)
	require.NoError(t, clk.Await(t.Context(), 2))
	clk.Advance(time.Second)
	require.Equal(t, NoSignal, (<-one).Signal.Signal)
}

func TestControlBoard_Await_cancelAndError(t *testing.T) {
	t.Parallel()
	d, clk := newFakeJobs(), clock.NewFake(time.Unix(0, 0))
	b := NewControlBoard(clk, d.next)
	ctx, cancel := context.WithCancel(t.Context())
	one := b.awaitAsync(ctx, ControlWaiter{RunID: "run_1"}, time.Minute)
	<-d.calls
	cancel()
	require.NoError(t, (<-one).err)
	d.mu.Lock()
	d.err = errors.New("jobs is unavailable")
	d.mu.Unlock()
	_, err := b.Await(t.Context(), ControlWaiter{RunID: "run_1"}, time.Minute)
	require.ErrorContains(t, err, "jobs is unavailable")
	require.Zero(t, b.count)
}

func TestControlBoard_Await_limits(t *testing.T) {
	t.Parallel()
	d, clk := newFakeJobs(), clock.NewFake(time.Unix(0, 0))
	b := NewControlBoard(clk, d.next)
	for range maxPerRun {
		_ = b.awaitAsync(t.Context(), ControlWaiter{RunID: "run_1"}, time.Minute)
		<-d.calls
	}
	_, err := b.Await(t.Context(), ControlWaiter{RunID: "run_1"}, time.Minute)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Positive(t, fault.From(err).RetryAfter)
	_, err = b.Await(t.Context(), ControlWaiter{RunID: "run_2"}, 0)
	require.NoError(t, err, "the limit applies to each run separately")
	b.mu.Lock()
	b.count = maxWaits
	b.mu.Unlock()
	_, err = b.Await(t.Context(), ControlWaiter{RunID: "run_2"}, 0)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	b.Close()
}

package signal

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

// desk answers what runs are asked, and tells of each question.
type desk struct {
	mu    sync.Mutex
	now   map[string]string
	asked chan string
	fails error
}

func newDesk() *desk { return &desk{now: map[string]string{}, asked: make(chan string, 100)} }

func (d *desk) next(_ context.Context, run string, _ int32) (Signal, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked <- run
	id := d.now[run]
	if d.fails != nil || id == "" {
		return Signal{Signal: None}, d.fails
	}
	return Signal{Signal: "checkpoint", ID: id}, nil
}

func (d *desk) set(run, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now[run] = id
}

type told struct {
	Signal
	err error
}

func (b *Board) later(ctx context.Context, w Waiter, wait time.Duration) chan told {
	out := make(chan told, 1)
	go func() {
		s, err := b.Await(ctx, w, wait)
		out <- told{s, err}
	}()
	return out
}

func TestAWaitIsWokenByItsOwnRunAlone(t *testing.T) {
	t.Parallel()
	d, clk := newDesk(), clock.NewFake(time.Unix(0, 0))
	b := NewBoard(clk, d.next)
	one := b.later(t.Context(), Waiter{RunID: "run_1"}, time.Minute)
	require.Equal(t, "run_1", <-d.asked)
	b.Set(map[string]string{"run_2": "sig_2"})
	require.Empty(t, d.asked, "it is not asked anew for another's sake")
	d.set("run_1", "sig_1")
	b.Set(map[string]string{"run_1": "sig_1", "run_2": "sig_2"})
	got := <-one
	require.NoError(t, got.err)
	require.Equal(t, "sig_1", got.ID)
	require.Empty(t, b.waiting)
	require.Zero(t, b.count)
}

func TestWhatIsKnownIsWaitedPast(t *testing.T) {
	t.Parallel()
	d, clk := newDesk(), clock.NewFake(time.Unix(0, 0))
	b := NewBoard(clk, d.next)
	d.set("run_1", "sig_1")
	b.Set(map[string]string{"run_1": "sig_1"})
	one := b.later(t.Context(), Waiter{RunID: "run_1", After: "sig_1"}, time.Minute)
	<-d.asked
	b.Set(map[string]string{"run_1": "sig_1"})
	require.Empty(t, d.asked, "nothing has changed")
	d.set("run_1", "stop.1")
	b.Set(map[string]string{"run_1": "stop.1"})
	require.Equal(t, "stop.1", (<-one).ID)
}

// A lost stream costs a delay: who waits looks by himself, and at the end of his time is told what is so.
func TestAWaitLooksByItself(t *testing.T) {
	t.Parallel()
	d, clk := newDesk(), clock.NewFake(time.Unix(0, 0))
	b := NewBoard(clk, d.next)
	one := b.later(t.Context(), Waiter{RunID: "run_1"}, time.Minute)
	<-d.asked
	d.set("run_1", "sig_1")
	require.NoError(t, clk.Await(t.Context(), 2))
	clk.Advance(lookAgain)
	require.Equal(t, "sig_1", (<-one).ID)

	d.set("run_1", "")
	one = b.later(t.Context(), Waiter{RunID: "run_1"}, time.Second)
	require.NoError(t, clk.Await(t.Context(), 2))
	clk.Advance(time.Second)
	require.Equal(t, None, (<-one).Signal.Signal)
}

func TestWhoGoesAndWhoFailsWaitsNoMore(t *testing.T) {
	t.Parallel()
	d, clk := newDesk(), clock.NewFake(time.Unix(0, 0))
	b := NewBoard(clk, d.next)
	ctx, cancel := context.WithCancel(t.Context())
	one := b.later(ctx, Waiter{RunID: "run_1"}, time.Minute)
	<-d.asked
	cancel()
	require.NoError(t, (<-one).err)
	d.mu.Lock()
	d.fails = errors.New("jobs is away")
	d.mu.Unlock()
	_, err := b.Await(t.Context(), Waiter{RunID: "run_1"}, time.Minute)
	require.ErrorContains(t, err, "jobs is away")
	require.Zero(t, b.count)
}

func TestARunAndAServerHoldTheirShareOfWaits(t *testing.T) {
	t.Parallel()
	d, clk := newDesk(), clock.NewFake(time.Unix(0, 0))
	b := NewBoard(clk, d.next)
	for range maxPerRun {
		_ = b.later(t.Context(), Waiter{RunID: "run_1"}, time.Minute)
		<-d.asked
	}
	_, err := b.Await(t.Context(), Waiter{RunID: "run_1"}, time.Minute)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	require.Positive(t, fault.From(err).RetryAfter)
	_, err = b.Await(t.Context(), Waiter{RunID: "run_2"}, 0)
	require.NoError(t, err, "another run has its own share")
	b.mu.Lock()
	b.count = maxWaits
	b.mu.Unlock()
	_, err = b.Await(t.Context(), Waiter{RunID: "run_2"}, 0)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	b.Close()
}

package follow

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// memoryStream is a stream that tests write to. The value of each event is its position in the stream.
type memoryStream struct {
	mu    sync.Mutex
	last  int64
	end   bool
	reads atomic.Int64
}

func (b *memoryStream) write(n int64, end bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.end = b.last+n, end
}

func (b *memoryStream) read(_ context.Context, _ string, after int64) (Page[int64], error) {
	b.reads.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	page := Page[int64]{Last: after}
	for page.Last < b.last && len(page.Events) < 10 {
		page.Last++
		page.Events = append(page.Events, page.Last)
	}
	page.End = b.end && page.Last == b.last
	return page, nil
}

func collect(into *[]int64) func(Page[int64]) error {
	return func(p Page[int64]) error {
		*into = append(*into, p.Events...)
		return nil
	}
}

func TestStreams_Follow_manyFollowersMissNoEvent(t *testing.T) {
	t.Parallel()
	hub, b := NewHub(clock.Real()), &memoryStream{}
	s := NewStreams[int64](hub, b.read)
	const followers, events = 50, 200
	var all sync.WaitGroup
	for f := range followers {
		all.Go(func() {
			var seen []int64
			if err := s.Follow(t.Context(), "run", int64(f%3), collect(&seen)); err != nil {
				t.Error(err)
			}
			for i, e := range seen {
				if e != int64(f%3+i+1) {
					t.Errorf("follower %d: event %d is %d", f, i, e)
					return
				}
			}
			if len(seen) != events-f%3 {
				t.Errorf("follower %d received %d events", f, len(seen))
			}
		})
	}
	for i := range events {
		b.write(1, i == events-1)
		hub.Wake([]string{"run"})
	}
	all.Wait()
	require.Empty(t, s.reads, "finished reads are removed")
	require.Empty(t, hub.topics)
}

func TestStreams_Follow_sharesReadAtSamePlace(t *testing.T) {
	t.Parallel()
	gate, started := make(chan struct{}), make(chan struct{}, 100)
	var reads atomic.Int64
	s := NewStreams[int64](NewHub(clock.Real()), func(context.Context, string, int64) (Page[int64], error) {
		reads.Add(1)
		started <- struct{}{}
		<-gate
		return Page[int64]{Events: []int64{1}, Last: 1, End: true}, nil
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			var seen []int64
			if err := s.Follow(t.Context(), "run", 0, collect(&seen)); err != nil || len(seen) != 1 {
				t.Error(seen, err)
			}
		})
	}
	<-started
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.reads[place{"run", 0}].users == 20
	}, time.Minute, time.Millisecond)
	close(gate)
	all.Wait()
	require.EqualValues(t, 1, reads.Load())
}

func TestStreams_Follow_canceledReaderIsReplaced(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	var once sync.Once
	s := NewStreams[int64](NewHub(clock.Real()), func(ctx context.Context, _ string, _ int64) (Page[int64], error) {
		first := false
		once.Do(func() { first = true; close(started) })
		if first {
			<-ctx.Done()
			return Page[int64]{}, ctx.Err()
		}
		return Page[int64]{Events: []int64{1}, Last: 1, End: true}, nil
	})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- s.Follow(ctx, "run", 0, collect(new([]int64))) }()
	<-started
	stays := make(chan error, 1)
	go func() { stays <- s.Follow(t.Context(), "run", 0, collect(new([]int64))) }()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.reads[place{"run", 0}].users == 2
	}, time.Minute, time.Millisecond)
	leave()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.NoError(t, <-stays)
}

func TestHub_Run_pollsAfterLostWakeUp(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	hub, b := NewHub(clk), &memoryStream{}
	s := NewStreams[int64](hub, b.read)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	polled := make(chan error, 1)
	go func() { polled <- hub.Run(ctx) }()
	followed := make(chan error, 1)
	go func() { followed <- s.Follow(ctx, "run", 0, collect(new([]int64))) }()
	require.Eventually(t, func() bool { return b.reads.Load() == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, clk.Await(ctx, 1))
	b.write(1, true)
	clk.Advance(time.Second)
	require.NoError(t, <-followed)
	cancel()
	require.ErrorIs(t, <-polled, context.Canceled)
}

func TestStreams_Follow_returnsErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	s := NewStreams[int64](NewHub(clock.Real()), func(context.Context, string, int64) (Page[int64], error) { return Page[int64]{}, broken })
	require.ErrorIs(t, s.Follow(t.Context(), "run", 0, nil), broken)
	b := &memoryStream{}
	b.write(1, false)
	s = NewStreams[int64](NewHub(clock.Real()), b.read)
	require.ErrorIs(t, s.Follow(t.Context(), "run", 0, func(Page[int64]) error { return broken }), broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var pages []Page[int64]
	send := func(p Page[int64]) error { pages = append(pages, p); return nil }
	require.ErrorIs(t, s.Follow(ctx, "run", 1, send), context.Canceled)
	require.Len(t, pages, 1, "the first page comes at once")
	require.Empty(t, pages[0].Events)
}

// Every wake-up sends a page with the current owner, even if there are no new events.
func TestStreams_Follow_everyPollReportsOwner(t *testing.T) {
	t.Parallel()
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	hub := NewHub(clk)
	var owner atomic.Value
	owner.Store("usr_1")
	s := NewStreams[int64](hub, func(_ context.Context, _ string, after int64) (Page[int64], error) {
		return Page[int64]{Owner: run.Owner{OwnerID: owner.Load().(string)}, Last: after}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	polled, followed, owners := make(chan error, 1), make(chan error, 1), make(chan string)
	go func() { polled <- hub.Run(ctx) }()
	lost := errors.New("the run has another owner")
	go func() {
		followed <- s.Follow(ctx, "run", 0, func(p Page[int64]) error {
			owners <- p.Owner.OwnerID
			if p.Owner.OwnerID != "usr_1" {
				return lost
			}
			return nil
		})
	}()
	require.Equal(t, "usr_1", <-owners)
	require.NoError(t, clk.Await(ctx, 1))
	clk.Advance(pollEvery)
	require.Equal(t, "usr_1", <-owners)
	owner.Store("usr_2")
	clk.Advance(pollEvery)
	require.Equal(t, "usr_2", <-owners)
	require.ErrorIs(t, <-followed, lost)
	cancel()
	require.ErrorIs(t, <-polled, context.Canceled)
}

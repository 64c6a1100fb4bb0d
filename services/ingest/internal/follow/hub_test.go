package follow

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// roundClosed reports whether the channel of a round has been closed.
func roundClosed(next <-chan struct{}) bool {
	select {
	case <-next:
		return true
	default:
		return false
	}
}

func TestHub_Wake_beginsRoundOfNamedRuns(t *testing.T) {
	t.Parallel()
	h := NewHub(clock.Real())
	h.join("run_1")
	h.join("run_2")
	first, one := h.round("run_1")
	_, two := h.round("run_2")
	h.Wake([]string{"run_1", "run_3", "", "run_1"})
	require.True(t, roundClosed(one))
	require.False(t, roundClosed(two))
	second, one := h.round("run_1")
	require.Greater(t, second, first)
	require.False(t, roundClosed(one), "the next round has not begun")
	h.WakeAll()
	require.True(t, roundClosed(one) && roundClosed(two))
	require.NotContains(t, h.topics, "run_3", "a run without followers has no topic")
	h.leave("run_1")
	h.leave("run_2")
	require.Empty(t, h.topics)
}

func TestHub_leave_removesTopicOfLastFollower(t *testing.T) {
	t.Parallel()
	h := NewHub(clock.Real())
	h.join("run")
	h.join("run")
	h.leave("run")
	_, next := h.round("run")
	h.Wake([]string{"run"})
	require.True(t, roundClosed(next))
	h.leave("run")
	require.Empty(t, h.topics)
	h.Wake([]string{"run"})
	h.WakeAll()
	require.Empty(t, h.topics)
}

func TestStreams_Follow_slowFollowerDelaysNoOther(t *testing.T) {
	t.Parallel()
	hub, b := NewHub(clock.Real()), &memoryStream{}
	s := NewStreams[int64](hub, b.read)
	const events = 500
	gate, got := make(chan struct{}), make(chan []int64, 1)
	slow := func() {
		var seen []int64
		waits := true
		err := s.Follow(t.Context(), "run", 0, func(p Page[int64]) error {
			if waits { // this follower blocks at its first page until the others are done
				<-gate
				waits = false
			}
			return collect(&seen)(p)
		})
		if err != nil {
			t.Error(err)
		}
		got <- seen
	}
	b.write(1, false)
	go slow()
	var quick sync.WaitGroup
	for range 5 {
		quick.Go(func() {
			var seen []int64
			if err := s.Follow(t.Context(), "run", 0, collect(&seen)); err != nil || len(seen) != events {
				t.Error(len(seen), err)
			}
		})
	}
	for i := 1; i < events; i++ {
		b.write(1, i == events-1)
		hub.Wake([]string{"run"})
	}
	quick.Wait() // the other followers finish while the slow one is blocked
	close(gate)
	seen := <-got
	require.Len(t, seen, events)
	for i, e := range seen {
		require.EqualValues(t, i+1, e)
	}
}

func TestStreams_Follow_resumesAfterPlace(t *testing.T) {
	t.Parallel()
	b := &memoryStream{}
	b.write(25, true)
	s := NewStreams[int64](NewHub(clock.Real()), b.read)
	for _, after := range []int64{0, 1, 9, 10, 24, 25} {
		var seen []int64
		ends := 0
		require.NoError(t, s.Follow(t.Context(), "run", after, func(p Page[int64]) error {
			if p.End {
				ends++
			}
			return collect(&seen)(p)
		}))
		require.Len(t, seen, int(25-after))
		require.Equal(t, 1, ends, "only the last page has End")
		for i, e := range seen {
			require.Equal(t, after+int64(i)+1, e)
		}
	}
}

func TestStreams_Follow_commitDuringRead(t *testing.T) {
	t.Parallel()
	// The wake-up arrives while the follower reads. The follower must read again in the new round.
	hub, b := NewHub(clock.Real()), &memoryStream{}
	reading, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := NewStreams[int64](hub, func(ctx context.Context, run string, after int64) (Page[int64], error) {
		page, err := b.read(ctx, run, after)
		once.Do(func() { close(reading); <-gate })
		return page, err
	})
	done := make(chan error, 1)
	var seen []int64
	go func() { done <- s.Follow(t.Context(), "run", 0, collect(&seen)) }()
	<-reading
	b.write(1, true)
	hub.Wake([]string{"run"})
	close(gate)
	require.NoError(t, <-done)
	require.Equal(t, []int64{1}, seen)
}

func TestStreams_Follow_panicInReadLeavesNoState(t *testing.T) {
	t.Parallel()
	s := NewStreams[int64](NewHub(clock.Real()), func(context.Context, string, int64) (Page[int64], error) { panic("x") })
	require.Panics(t, func() { _ = s.Follow(t.Context(), "run", 0, nil) })
	require.Empty(t, s.reads)
	require.Empty(t, s.hub.topics)
}

// awaitListeners waits until exactly n database sessions listen for notifications.
func awaitListeners(t *testing.T, admin *pgxpool.Pool, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var found int
		err := admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'`).Scan(&found)
		return err == nil && found == n
	}, time.Minute, 10*time.Millisecond)
}

func TestHub_Listen_wakesNamedRuns(t *testing.T) {
	t.Parallel()
	base := pgtest.New(t, pgtest.Schema{Name: "ingest"})
	pool := base.Pool("ingest")
	admin, err := pgxpool.New(t.Context(), base.AdminURL().Reveal())
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	h := NewHub(clock.Real())
	h.join("run_1")
	h.join("run_2")
	_, missed := h.round("run_1")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Listen(ctx, pool, `odd "channel`) }()
	<-missed // Listen wakes all followers at its start
	awaitListeners(t, admin, 1)
	_, one := h.round("run_1")
	_, two := h.round("run_2")
	_, err = pool.Exec(t.Context(), `SELECT pg_notify($1, 'run_9,run_1')`, `odd "channel`)
	require.NoError(t, err)
	<-one
	require.False(t, roundClosed(two))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	awaitListeners(t, admin, 0)
	require.Zero(t, pool.Stat().AcquiredConns(), "the listening connection was taken out of the pool")
}

func TestHub_Listen_returnsOnLostConnection(t *testing.T) {
	t.Parallel()
	base := pgtest.New(t, pgtest.Schema{Name: "ingest"})
	admin, err := pgxpool.New(t.Context(), base.AdminURL().Reveal())
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	h := NewHub(clock.Real())
	for range 2 { // Listen can be called again
		h.join("run_1")
		_, missed := h.round("run_1")
		ended := make(chan error, 1)
		go func() { ended <- h.Listen(t.Context(), base.Pool("ingest"), "c") }()
		<-missed
		awaitListeners(t, admin, 1)
		_, err = admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
		require.NoError(t, err)
		require.ErrorContains(t, <-ended, "wait for notifications")
		h.leave("run_1")
	}
	closed := base.Pool("ingest")
	closed.Close()
	require.ErrorContains(t, h.Listen(t.Context(), closed, "c"), "take a connection out of the pool")
}

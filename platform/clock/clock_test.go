package clock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

func start() time.Time {
	return time.Date(2026, 11, 21, 3, 0, 0, 123456789, time.FixedZone("x", 3600))
}

func TestReal_Now_utcMicroseconds(t *testing.T) {
	t.Parallel()
	now := clock.Real().Now()
	require.Equal(t, time.UTC, now.Location())
	require.Zero(t, now.Nanosecond()%1000)
	require.WithinDuration(t, time.Now(), now, time.Minute)
	require.GreaterOrEqual(t, clock.Since(clock.Real(), now), time.Duration(0))
}

func TestReal_timers(t *testing.T) {
	t.Parallel()
	timer := clock.Real().NewTimer(time.Hour)
	require.True(t, timer.Reset(time.Microsecond))
	<-timer.C()
	require.False(t, timer.Stop())
	ticker := clock.Real().NewTicker(time.Hour)
	defer ticker.Stop()
	ticker.Reset(time.Microsecond)
	<-ticker.C()
	<-ticker.C()
}

func TestFake_movesOnlyByAdvance(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(start())
	require.Equal(t, "2026-11-21T02:00:00.123456Z", f.Now().Format(time.RFC3339Nano))
	f.Advance(time.Second)
	require.Equal(t, "2026-11-21T02:00:01.123456Z", f.Now().Format(time.RFC3339Nano))
}

func TestFake_timersFireInOrderOnce(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(start())
	begin := f.Now()
	late, early := f.NewTimer(2*time.Second), f.NewTimer(time.Second)
	f.Advance(time.Second - time.Microsecond)
	require.Empty(t, early.C())
	f.Advance(5 * time.Second)
	require.Equal(t, begin.Add(time.Second), <-early.C())
	require.Equal(t, begin.Add(2*time.Second), <-late.C())
	f.Advance(time.Hour)
	require.Empty(t, early.C())
	require.False(t, late.Stop())
}

func TestFake_timerStopAndReset(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(start())
	timer := f.NewTimer(time.Second)
	require.True(t, timer.Stop())
	f.Advance(time.Minute)
	require.Empty(t, timer.C())
	require.False(t, timer.Reset(time.Second))
	f.Advance(time.Second)
	require.True(t, timer.Reset(time.Second), "the timer had fired, but its value was not received")
	require.Empty(t, timer.C(), "Reset drops an unread value")
	require.True(t, timer.Reset(0))
	require.Equal(t, f.Now(), <-timer.C())
}

func TestFake_ticker(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(start())
	begin := f.Now()
	ticker := f.NewTicker(time.Second)
	f.Advance(3500 * time.Millisecond)
	require.Equal(t, begin.Add(time.Second), <-ticker.C(), "a slow reader sees one tick")
	require.Empty(t, ticker.C())
	f.Advance(500 * time.Millisecond)
	require.Equal(t, begin.Add(4*time.Second), <-ticker.C())
	ticker.Reset(time.Minute)
	f.Advance(59 * time.Second)
	require.Empty(t, ticker.C())
	f.Advance(time.Second)
	require.Len(t, ticker.C(), 1)
	ticker.Stop()
	f.Advance(time.Hour)
	require.Empty(t, ticker.C())
	require.Panics(t, func() { f.NewTicker(0) })
}

func TestSleep(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(start())
	done := make(chan error, 1)
	go func() { done <- clock.Sleep(t.Context(), f, time.Minute) }()
	require.NoError(t, f.Await(t.Context(), 1))
	f.Advance(time.Minute)
	require.NoError(t, <-done)

	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- clock.Sleep(ctx, f, time.Minute) }()
	require.NoError(t, f.Await(t.Context(), 1))
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.ErrorIs(t, clock.Sleep(ctx, f, 0), context.Canceled)
	require.NoError(t, clock.Sleep(t.Context(), f, -1))
	require.ErrorIs(t, f.Await(ctx, 1), context.Canceled, "a stopped sleep leaves no timer behind")
}

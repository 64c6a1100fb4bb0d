package clock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// act is one step of a script that runs on both clocks.
type act struct {
	what string
	d    time.Duration
}

func script(r *rand.Rand) []act {
	words := []string{"advance", "advance", "timer", "stop timer", "reset timer", "ticker", "reset ticker", "stop ticker", "read"}
	acts := make([]act, 40)
	for i := range acts {
		// The durations are all different, because the order of timers due at the same time is not specified.
		acts[i] = act{words[r.IntN(len(words))], time.Duration(r.IntN(4000)+1)*time.Millisecond + time.Duration(i)*time.Microsecond}
	}
	return acts
}

// play runs the acts on a clock and returns what it observes. The function advance makes time pass on the clock.
func play(clk clock.Clock, advance func(time.Duration), acts []act) []string {
	begin := clk.Now()
	timer, ticker := clk.NewTimer(time.Hour), clk.NewTicker(time.Hour)
	defer timer.Stop()
	defer ticker.Stop()
	var seen []string
	note := func(text string, args ...any) { seen = append(seen, fmt.Sprintf(text, args...)) }
	for _, a := range acts {
		switch a.what {
		case "advance":
			advance(a.d)
			note("now %v", clock.Since(clk, begin))
		case "timer":
			timer.Stop()
			timer = clk.NewTimer(a.d)
		case "stop timer":
			note("stopped %v", timer.Stop())
		case "reset timer":
			note("reset %v", timer.Reset(a.d))
		case "ticker":
			ticker.Stop()
			ticker = clk.NewTicker(a.d)
		case "reset ticker":
			ticker.Reset(a.d)
		case "stop ticker":
			ticker.Stop()
		case "read":
			select {
			case at := <-timer.C():
				note("fired at %v", at.Sub(begin).Truncate(time.Microsecond))
			default:
				note("no fire")
			}
			select {
			case at := <-ticker.C():
				note("ticked at %v", at.Sub(begin).Truncate(time.Microsecond))
			default:
				note("no tick")
			}
		}
	}
	return seen
}

// Tests with the fake clock are only meaningful if it behaves like the real clock. The same random scripts run on
// both. The real clock runs in a synctest bubble, in which time passes instantly.
func TestFake_behavesLikeReal(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		acts := script(rand.New(rand.NewPCG(seed, 1)))
		fake := clock.NewFake(start())
		onFake := play(fake, fake.Advance, acts)
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, play(clock.Real(), time.Sleep, acts), onFake, "seed %d: %v", seed, acts)
		})
	}
}

func TestFake_timerDeliversDueTime(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(start())
	begin := f.Now()
	first := f.NewTimer(time.Second)
	f.Advance(time.Minute)
	require.Equal(t, begin.Add(time.Second), <-first.C())
	require.Equal(t, begin.Add(time.Minute), f.Now())
	require.Equal(t, 59*time.Second, clock.Since(f, begin.Add(time.Second)))
}

func TestFake_zeroDurations(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(start())
	require.Len(t, f.NewTimer(0).C(), 1)
	require.Len(t, f.NewTimer(-time.Second).C(), 1)
	timer := f.NewTimer(time.Nanosecond)
	f.Advance(0)
	require.Empty(t, timer.C())
	f.Advance(time.Microsecond)
	require.Len(t, timer.C(), 1)
}

func TestFake_Await(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(start())
	require.NoError(t, f.Await(t.Context(), 0))
	timer, ticker := f.NewTimer(time.Second), f.NewTicker(time.Second)
	require.NoError(t, f.Await(t.Context(), 2))
	f.Advance(time.Second)
	require.NoError(t, f.Await(t.Context(), 1), "a ticker keeps running")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, f.Await(over, 2), context.Canceled, "a fired timer does not count")
	awaited := make(chan error, 1)
	go func() { awaited <- f.Await(t.Context(), 2) }()
	timer.Reset(time.Second)
	require.NoError(t, <-awaited)
	ticker.Stop()
	require.ErrorIs(t, f.Await(over, 2), context.Canceled)
}

// Goroutines sleep repeatedly while another goroutine advances the clock. All of them wake up, and none wakes up
// early.
func TestFake_manySleepers(t *testing.T) {
	t.Parallel()
	f := clock.NewFake(start())
	begin := f.Now()
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			d := time.Duration(n%10+1) * time.Second
			for range 3 {
				from := f.Now()
				if err := clock.Sleep(t.Context(), f, d); err != nil || f.Now().Sub(from) < d {
					t.Errorf("slept %v of %v: %v", f.Now().Sub(from), d, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		select {
		case <-done:
			require.GreaterOrEqual(t, clock.Since(f, begin), 30*time.Second)
			return
		default:
			f.Advance(100 * time.Millisecond)
		}
	}
}

func TestMonotonic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		passed := clock.Monotonic()
		require.Zero(t, passed())
		time.Sleep(90 * time.Second)
		require.Equal(t, 90*time.Second, passed())
		other := clock.Monotonic()
		time.Sleep(time.Second)
		require.Equal(t, 91*time.Second, passed())
		require.Equal(t, time.Second, other())
	})
}

func TestSleep_realClockCanceledContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- clock.Sleep(ctx, clock.Real(), 1000*time.Hour) }()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

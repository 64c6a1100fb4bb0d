package process_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/process"
)

func TestLoop_runsAtOnceAndAfterEachInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		var at []time.Duration
		err := process.Loop(ctx, clock.Real(), 10*time.Second, time.Second, func(context.Context) error {
			at = append(at, time.Since(begin))
			if len(at) == 4 {
				cancel()
			}
			return nil
		})
		require.NoError(t, err)
		require.Len(t, at, 4)
		require.Zero(t, at[0])
		for i := range 3 {
			gap := at[i+1] - at[i]
			require.GreaterOrEqual(t, gap, 10*time.Second)
			require.LessOrEqual(t, gap, 11*time.Second)
		}
		require.NotEqual(t, at[1]-at[0], at[2]-at[1], "each interval has its own jitter")
	})
}

func TestLoop_returnsFirstError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	clk := clock.NewFake(time.Unix(0, 0))
	require.ErrorIs(t, process.Loop(t.Context(), clk, time.Second, 0, func(context.Context) error { return boom }), boom)

	ctx, cancel := context.WithCancel(t.Context())
	err := process.Loop(ctx, clk, time.Second, 0, func(context.Context) error { cancel(); return boom })
	require.NoError(t, err, "errors after the context is done are ignored")
	require.NoError(t, process.Loop(ctx, clk, time.Second, 0, func(context.Context) error { panic("called after the context is done") }))
}

func TestLogged_logsErrorAndReturnsNil(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	round := process.Logged(slog.New(slog.NewTextHandler(&out, nil)), "reaper", func(ctx context.Context) error {
		return errors.Join(errors.New("no route"), ctx.Err())
	})
	require.NoError(t, round(t.Context()))
	require.Contains(t, out.String(), "loop=reaper error=\"no route\"")
	out.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, round(ctx))
	require.Empty(t, out.String(), "an error after the cancellation is not logged")
}

func TestBackoff_Delay(t *testing.T) {
	t.Parallel()
	plain := process.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for attempt, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		require.Equal(t, want*time.Millisecond, plain.Delay(attempt))
	}
	require.Equal(t, time.Second, plain.Delay(1_000_000))
	jittered := process.Backoff{Min: time.Second, Max: time.Minute, Jitter: 0.5}
	seen := map[time.Duration]bool{}
	for range 100 {
		d := jittered.Delay(1)
		require.GreaterOrEqual(t, d, time.Second)
		require.LessOrEqual(t, d, 2*time.Second)
		seen[d] = true
	}
	require.Greater(t, len(seen), 50)
	require.Zero(t, process.Backoff{}.Delay(3))
}

func TestBackoff_Retry(t *testing.T) {
	t.Parallel()
	busy, fatal := errors.New("busy"), errors.New("fatal")
	b := process.Backoff{Min: time.Second, Max: 4 * time.Second}
	for name, c := range map[string]struct {
		results []error
		want    error
		calls   int
		took    time.Duration
	}{
		"first":              {[]error{nil}, nil, 1, 0},
		"third":              {[]error{busy, busy, nil}, nil, 3, 3 * time.Second},
		"not retryable":      {[]error{busy, fatal}, fatal, 2, time.Second},
		"all attempts fail":  {[]error{busy, busy, busy, busy}, busy, 4, 7 * time.Second},
		"no further attempt": {[]error{busy, busy, busy, busy, nil}, busy, 4, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin, calls := time.Now(), 0
				retryable := func(err error) bool { return errors.Is(err, busy) }
				err := b.Retry(t.Context(), clock.Real(), 4, retryable, func(context.Context) error {
					calls++
					return c.results[calls-1]
				})
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.calls, calls)
				require.Equal(t, c.took, time.Since(begin))
			})
		})
	}
}

func TestBackoff_Retry_endsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		busy := errors.New("busy")
		err := process.Backoff{Min: time.Hour, Max: time.Hour}.Retry(ctx, clock.Real(), 9,
			func(error) bool { return true }, func(context.Context) error { return busy })
		require.ErrorIs(t, err, busy)
	})
}

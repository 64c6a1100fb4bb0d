package process

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Loop calls fn at once and then repeatedly. After each call it waits for the given interval plus a random part of
// jitter. It returns nil when ctx is done, or the error of fn. To continue after failures, wrap fn in Logged.
func Loop(ctx context.Context, clk clock.Clock, every, jitter time.Duration, fn func(context.Context) error) error {
	for !isDone(ctx) {
		if err := fn(ctx); err != nil && !isDone(ctx) {
			return err
		}
		// Sleep fails only if ctx is done, which the loop condition checks.
		_ = clock.Sleep(ctx, clk, every+part(jitter))
	}
	return nil
}

// Logged wraps fn for Loop. The returned function logs the error of fn, unless ctx is done, and returns nil.
func Logged(log *slog.Logger, name string, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "background loop failed; it runs again later", "loop", name, "error", err.Error())
		}
		return nil
	}
}

// Backoff computes the wait before the next attempt. It begins with Min and doubles up to Max. The fraction Jitter (0
// to 1) of each wait is random, so that many clients do not retry at the same time.
type Backoff struct {
	Min, Max time.Duration
	Jitter   float64
}

// Delay returns the wait after the given attempt, counted from 0.
func (b Backoff) Delay(attempt int) time.Duration {
	d := b.Min
	for ; attempt > 0 && d < b.Max; attempt-- {
		d *= 2
	}
	d = min(d, b.Max)
	random := time.Duration(float64(d) * min(max(b.Jitter, 0), 1))
	return d - random + part(random)
}

// Wait sleeps for Delay or until ctx is done.
func (b Backoff) Wait(ctx context.Context, clk clock.Clock, attempt int) error {
	return clock.Sleep(ctx, clk, b.Delay(attempt))
}

// Retry calls fn up to tries times and waits in between. It stops when fn returns nil or an error that is not
// retryable, or when ctx is done. It returns the last error.
func (b Backoff) Retry(
	ctx context.Context, clk clock.Clock, tries int, retryable func(error) bool, fn func(context.Context) error,
) error {
	for attempt := 0; ; attempt++ {
		err := fn(ctx)
		if err == nil || !retryable(err) {
			return err
		}
		if attempt+1 >= tries {
			return fmt.Errorf("after %d attempts: %w", tries, err)
		}
		if b.Wait(ctx, clk, attempt) != nil {
			return err
		}
	}
}

// part returns a random duration in [0, d].
func part(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	var raw [8]byte
	_, _ = rand.Read(raw[:])
	share := float64(binary.NativeEndian.Uint64(raw[:])>>11) / (1 << 53)
	return time.Duration(share * float64(d+1))
}

package run

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Loop calls fn at once and then again after every plus a random part of jitter,
// counted from the end of the call, until ctx ends (nil) or fn fails. A loop that
// shall outlive failures wraps fn in Logged.
func Loop(ctx context.Context, clk clock.Clock, every, jitter time.Duration, fn func(context.Context) error) error {
	for !isOver(ctx) {
		if err := fn(ctx); err != nil && !isOver(ctx) {
			return err
		}
		// Its error is the end of ctx, which the condition sees.
		_ = clock.Sleep(ctx, clk, every+part(jitter))
	}
	return nil
}

// Logged makes a round of a loop that logs its failure and goes on.
func Logged(log *slog.Logger, name string, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "round failed", "loop", name, "error", err.Error())
		}
		return nil
	}
}

// Backoff is how long to wait before the next try: Min, doubled up to Max, of
// which the share Jitter (0 to 1) is random, so that many do not come back at once.
type Backoff struct {
	Min, Max time.Duration
	Jitter   float64
}

// Delay is the wait after the try numbered attempt, which counts from 0.
func (b Backoff) Delay(attempt int) time.Duration {
	d := b.Min
	for ; attempt > 0 && d < b.Max; attempt-- {
		d *= 2
	}
	d = min(d, b.Max)
	random := time.Duration(float64(d) * min(max(b.Jitter, 0), 1))
	return d - random + part(random)
}

// Wait sleeps for Delay or until ctx ends.
func (b Backoff) Wait(ctx context.Context, clk clock.Clock, attempt int) error {
	return clock.Sleep(ctx, clk, b.Delay(attempt))
}

// Retry calls fn up to tries times, with waits between, until it answers nil or
// an error that retryable refuses. It answers the last error.
func (b Backoff) Retry(
	ctx context.Context, clk clock.Clock, tries int, retryable func(error) bool, fn func(context.Context) error,
) error {
	for attempt := 0; ; attempt++ {
		err := fn(ctx)
		if err == nil || !retryable(err) {
			return err
		}
		if attempt+1 >= tries {
			return fmt.Errorf("after %d tries: %w", tries, err)
		}
		if b.Wait(ctx, clk, attempt) != nil {
			return err
		}
	}
}

// part is a random duration in [0, d].
func part(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	var raw [8]byte
	_, _ = rand.Read(raw[:])
	share := float64(binary.NativeEndian.Uint64(raw[:])>>11) / (1 << 53)
	return time.Duration(share * float64(d+1))
}

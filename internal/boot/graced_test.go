package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/process"
)

func TestGraced_stopEndsAfterGrace(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	stalled := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("finish requests: %w", ctx.Err())
	}
	for name, c := range map[string]struct {
		stop func(ctx context.Context) error
		want error
		cut  bool
	}{
		"no callers":     {func(context.Context) error { return nil }, nil, false},
		"stalled caller": {stalled, nil, true},
		"stop fails":     {func(context.Context) error { return broken }, broken, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The context's limit is far away: a stop that waited for it would exceed the test's time.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var log bytes.Buffer
			grace := func(context.Context) time.Duration { return 10 * time.Millisecond }
			err := Graced(process.Worker{Stop: c.stop}, slog.New(slog.NewTextHandler(&log, nil)), grace).Stop(ctx)
			require.ErrorIs(t, err, c.want)
			require.NoError(t, ctx.Err())
			require.Equal(t, c.cut, bytes.Contains(log.Bytes(), []byte("cut off")), log.String())
		})
	}
}

func TestGraced_endOfWholeStopIsError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	w := process.Worker{Stop: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	grace := func(context.Context) time.Duration { return time.Minute }
	require.ErrorIs(t, Graced(w, slog.New(slog.DiscardHandler), grace).Stop(ctx), context.DeadlineExceeded)
}

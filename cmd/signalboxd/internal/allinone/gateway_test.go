package allinone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/process"
)

func TestHurried_stopEndsAfterGrace(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		stop func(ctx context.Context) error
		want error
	}{
		"no callers": {func(context.Context) error { return nil }, nil},
		"stalled caller": {func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("finish requests: %w", ctx.Err())
		}, nil},
		"stop fails": {func(context.Context) error { return broken }, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The context's limit is far away: a stop that waited for it would exceed the test's time.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := hurried(process.Worker{Stop: c.stop}, slog.New(slog.DiscardHandler)).Stop(ctx)
			require.ErrorIs(t, err, c.want)
			require.NoError(t, ctx.Err())
		})
	}
}

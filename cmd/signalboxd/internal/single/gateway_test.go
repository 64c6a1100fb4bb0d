package single

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/run"
)

func TestCallersHoldTheStopUpForAMomentOnly(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		stop func(ctx context.Context) error
		want error
	}{
		"nobody is there": {func(context.Context) error { return nil }, nil},
		"a caller that stalls": {func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("finish requests: %w", ctx.Err())
		}, nil},
		"a fault of the edge": {func(context.Context) error { return broken }, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The limit of all parts is far: a stop that waits for it runs into the test's own.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := hurried(run.Worker{Stop: c.stop}, slog.New(slog.DiscardHandler)).Stop(ctx)
			require.ErrorIs(t, err, c.want)
			require.NoError(t, ctx.Err())
		})
	}
}

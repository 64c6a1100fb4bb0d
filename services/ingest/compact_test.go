package ingest_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/metric"
)

// restless is a clock whose timers fire at once, so that the compactor does not rest.
type restless struct{ clock.Clock }

func (r restless) NewTimer(time.Duration) clock.Timer { return r.Clock.NewTimer(0) }

// compact moves the rows of all runs into blocks, as far as the compactor may move them.
func compact(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	_, err := pool.Exec(tb.Context(), `UPDATE metric_hot SET due = now() - interval '1 minute'`)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(tb.Context())
	defer cancel()
	c, err := metric.NewCompactor(pool, restless{clock.Real()}, slog.New(slog.DiscardHandler), nil)
	require.NoError(tb, err)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	require.Eventually(tb, func() bool {
		var due int
		err := pool.QueryRow(ctx, `SELECT count(*) FROM metric_hot WHERE due <= now()`).Scan(&due)
		return err == nil && due == 0
	}, 5*time.Minute, 50*time.Millisecond)
	cancel()
	require.NoError(tb, <-done)
}

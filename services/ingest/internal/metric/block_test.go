package metric

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// compact moves rows of a run into segments of random lengths: all rows, or about half of them.
func (b *harness) compact(runID string, draw *rand.Rand, all bool) {
	b.t.Helper()
	var first, last int64
	err := b.pool.QueryRow(b.t.Context(), `SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM metric_batch WHERE run_id = $1`, runID).Scan(&first, &last)
	require.NoError(b.t, err)
	if first == 0 {
		return
	}
	if !all {
		last = (first + last) / 2
	}
	for at := first - 1; at < last; {
		at = min(last, at+1+draw.Int64N(40))
		b.move(runID, at)
		if draw.IntN(2) == 0 {
			b.summarize(runID, draw.IntN(20))
		}
	}
}

// summarize adds the summaries of a run if it has enough blocks without one.
func (b *harness) summarize(runID string, enough int) {
	b.t.Helper()
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		return summarize(ctx, tx, runID, enough)
	}))
}

// move moves the rows of a run up to a number into a segment.
func (b *harness) move(runID string, last int64) {
	b.t.Helper()
	require.NoError(b.t, pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := move(ctx, tx, runID, last)
		return err
	}))
}

// followAll returns all batches of a run that follow a number.
func (b *harness) followAll(runID string, after int64) (all []Batch) {
	b.t.Helper()
	store := NewStore(b.pool, run.NewGate())
	for {
		batches, err := store.After(b.t.Context(), runID, after)
		require.NoError(b.t, err)
		if len(batches) == 0 {
			return all
		}
		all, after = append(all, batches...), batches[len(batches)-1].Seq
	}
}

// Followers and readers of all points must not notice that points were moved.
func TestMove_changesNoBatchAndNoSeries(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(21, 22))
	b := open(t)
	for n, late := range []float64{0, 0.1, 1} {
		d := &drawn{id: []string{"regular", "late", "only late"}[n], keys: [2]reports{drawReports(draw, 900, late), drawReports(draw, 500, late)}}
		d.store(b, draw)
		list := func() []Series {
			series, _, err := NewStore(b.pool, run.NewGate()).List(t.Context(), d.id, nil, request.Page{Limit: 10})
			require.NoError(t, err)
			return series
		}
		batches, series := b.followAll(d.id, 0), list()
		for _, all := range []bool{false, true} {
			b.compact(d.id, draw, all)
			sameBatches(t, batches, b.followAll(d.id, 0))
			from := draw.IntN(len(batches))
			sameBatches(t, batches[from:], b.followAll(d.id, batches[from].Seq-1))
			got := list()
			require.Len(t, got, len(series))
			for k := range series {
				require.Len(t, got[k].Points, len(series[k].Points))
				for i := range series[k].Points {
					sameSeen(t, series[k].Points[i], got[k].Points[i])
				}
			}
		}
		var rows int
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM metric_batch WHERE run_id = $1`, d.id).Scan(&rows))
		require.Zero(t, rows)
	}
}

// sameBatches compares batches. NaN is equal to NaN.
func sameBatches(t *testing.T, want, got []Batch) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Seq, got[i].Seq)
		require.Len(t, got[i].Points, len(want[i].Points))
		for k, p := range want[i].Points {
			q := got[i].Points[k]
			sameSeen(t, Seen{Value: p.Value}, Seen{Value: q.Value})
			p.Value, q.Value = 0, 0
			require.Equal(t, p, q)
		}
	}
}

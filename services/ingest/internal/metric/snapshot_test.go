package metric

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// moving moves rows whenever a reader is about to read rows.
type moving struct {
	database

	move func()
}

func (m *moving) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	tx, err := m.database.BeginTx(ctx, opts)
	return movingTx{tx, m}, err
}

type movingTx struct {
	pgx.Tx

	by *moving
}

func (m movingTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if sql == forwardSQL {
		m.by.move()
	}
	return m.Tx.Query(ctx, sql, args...)
}

// Points that are moved while a reader reads are neither missing nor counted twice.
func TestStore_readsWhileRowsAreMoved(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(41, 42))
	b := open(t)
	d := &drawn{id: "moved", keys: [2]reports{inOrder(draw, 900, 1), inOrder(draw, 900, 1)}}
	d.store(b, draw)
	b.compact(d.id, draw, false)
	store := NewStore(&moving{b.pool, func() { b.compact(d.id, draw, false) }}, run.NewGate())
	want := d.keys[0].lastOfSteps(Steps)
	for range 2 {
		charts, _, err := store.Charts(t.Context(), d.id, []string{"a"}, All(Steps), 30, request.Page{Limit: 1})
		require.NoError(t, err)
		sameChart(t, want, All(Steps), 30, &charts[0])
		series, _, err := store.List(t.Context(), d.id, []string{"a"}, request.Page{Limit: 1})
		require.NoError(t, err)
		require.Len(t, series[0].Points, len(want))
	}
}

// The points of each key are read in the order of their reports, whether they are in rows or in blocks.
func TestScanBlocks_keepsOrderOfReports(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(43, 44))
	b := open(t)
	d := &drawn{id: "order", keys: [2]reports{drawReports(draw, 3000, 0.3), drawReports(draw, 900, 0.3)}}
	d.store(b, draw)
	read := func() (all [2][]reported) {
		visit := func(attempt int32, p Point) {
			all[p.Key-1] = append(all[p.Key-1], reported{attempt, Point{Step: p.Step, Micros: p.Micros}})
		}
		require.NoError(t, scanBlocks(t.Context(), visit, b.pool, `SELECT first_seq, key, attempt, low_index, high_index, data
			FROM metric_block WHERE run_id = $1 AND key = ANY($2) ORDER BY first_seq, key, low_index`, d.id, []int32{1, 2}))
		require.NoError(t, scan(t.Context(), func(int32) bool { return true }, visit, b.pool, d.id, 1<<40))
		return all
	}
	want := read()
	var last int64
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT max(seq) FROM metric_batch WHERE run_id = $1`, d.id).Scan(&last))
	b.move(d.id, last/2) // the blocks of a segment overlap, because reports are late
	require.Equal(t, want, read())
	b.move(d.id, last)
	require.Equal(t, want, read())
}

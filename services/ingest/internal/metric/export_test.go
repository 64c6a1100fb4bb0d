package metric

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// exported returns the points of an export by key.
func (b *harness) exported(s *Store, runID string, keys ...string) (points map[string][]Seen, order []string) {
	b.t.Helper()
	points = map[string][]Seen{}
	err := s.Export(b.t.Context(), runID, keys, 0, nil, func(key string, p Seen) error {
		if len(order) == 0 || order[len(order)-1] != key {
			order = append(order, key)
		}
		points[key] = append(points[key], p)
		return nil
	})
	require.NoError(b.t, err)
	return points, order
}

// An export has the points that a chart shows, wherever they are stored, also if many of them came late.
func TestStore_Export_matchesCharts(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(7, 8))
	b := open(t)
	for i, late := range []float64{0, 0.1, 0.9} {
		d := &drawn{id: "export-" + string(rune('a'+i)), keys: [2]reports{drawReports(draw, 600, late), drawReports(draw, 300, late)}}
		d.store(b, draw)
		store := NewStore(b.pool, run.NewGate())
		if i == 2 {
			store.recent, store.late = 16, 20 // so that the rows are read in several parts
		}
		for _, compacted := range []string{"rows", "some blocks", "blocks"} {
			if compacted != "rows" {
				b.compact(d.id, draw, compacted == "blocks")
			}
			got, order := b.exported(store, d.id)
			var shown []string // all points of a key may be hidden by a newer attempt
			for k, key := range []string{"a", "b"} {
				want := d.seenIn(k, All(Steps))
				if len(want) > 0 {
					shown = append(shown, key)
				}
				require.Len(t, got[key], len(want), "%s %s", compacted, key)
				for at, p := range got[key] {
					require.Equal(t, want[at].Step, p.Step)
					require.Equal(t, math.Float64bits(want[at].Value), math.Float64bits(p.Value), "%s %s %d", compacted, key, p.Step)
				}
			}
			require.Equal(t, shown, order, compacted)
			_, order = b.exported(store, d.id, "b", "none")
			require.ElementsMatch(t, slices.DeleteFunc(shown, func(key string) bool { return key == "a" }), order)
		}
	}
}

func TestStore_Export_stopsAtFirstError(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(9, 10))
	b := open(t)
	d := &drawn{id: "stopped", keys: [2]reports{drawReports(draw, 500, 0), drawReports(draw, 500, 0)}}
	d.store(b, draw)
	broken, calls := errors.New("broken pipe"), 0
	err := NewStore(b.pool, run.NewGate()).Export(t.Context(), d.id, nil, 0, nil, func(string, Seen) error {
		if calls++; calls == 3 {
			return broken
		}
		return nil
	})
	require.ErrorIs(t, err, broken)
	require.Equal(t, 3, calls)
}

// A run that is deleted or expires during an export, or between the list of its keys and its first series, must not
// lead to a file with fewer points.
func TestStore_Export_failsIfRunIsDeleted(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(11, 12))
	b := open(t)
	d := &drawn{id: "deleted", keys: [2]reports{drawReports(draw, 500, 0), drawReports(draw, 500, 0)}}
	d.store(b, draw)
	store := NewStore(b.pool, run.NewGate())
	expire := func(keys ...string) (last string, err error) {
		once := false
		err = store.Export(t.Context(), d.id, keys, 0, nil, func(key string, _ Seen) error {
			if last = key; once {
				return nil
			}
			once = true
			_, err := b.pool.Exec(t.Context(), `UPDATE run SET expired_at = now() WHERE id = $1`, d.id)
			return err
		})
		return last, err
	}
	absent := func(err error) {
		t.Helper()
		require.True(t, fault.Is(err, fault.Absent) && fault.HasCode(err, "metrics_deleted"), "%v", err)
	}
	last, err := expire()
	absent(err)
	require.Equal(t, "a", last)
	b.exec(`UPDATE run SET expired_at = NULL`)
	_, err = expire("b")
	absent(err)
	b.exec(`DELETE FROM metric_batch`)
	b.exec(`DELETE FROM metric_key`)
	absent(store.Export(t.Context(), d.id, nil, 0, nil, func(string, Seen) error { return nil }))
}

// Each series reads all rows, so the number of series is limited while a run has many.
func TestStore_Export_refusesManyKeysOfRows(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(13, 14))
	b := open(t)
	d := &drawn{id: "many", keys: [2]reports{drawReports(draw, leastBlock*maxExportKeys, 0), drawReports(draw, leastBlock, 0)}}
	d.store(b, draw)
	keys := func(n int) {
		_, err := b.pool.Exec(t.Context(), `INSERT INTO metric_key (run_id, id, key)
			SELECT $1, n, convert_to('key ' || n, 'UTF8') FROM generate_series(3, $2::int) n ON CONFLICT DO NOTHING`, d.id, n)
		require.NoError(t, err)
	}
	store, enough := NewStore(b.pool, run.NewGate()), errors.New("the export has begun")
	export := func(keys ...string) error {
		return store.Export(t.Context(), d.id, keys, 0, nil, func(string, Seen) error { return enough })
	}
	keys(maxExportKeys)
	require.ErrorIs(t, export(), enough)
	keys(maxExportKeys + 1)
	err := export()
	require.True(t, fault.Is(err, fault.Refused) && fault.HasCode(err, "export_keys"), "%v", err)
	require.ErrorContains(t, err, "257 keys")
	require.ErrorIs(t, export("a", "b"), enough)
	b.compact(d.id, draw, true)
	require.ErrorIs(t, export(), enough)
}

// watched calls a function at the beginning of each transaction.
type watched struct {
	database

	began func(tx pgx.Tx)
}

type watchedTx struct {
	pgx.Tx

	began func(tx pgx.Tx)
}

func (w *watched) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	tx, err := w.database.BeginTx(ctx, opts)
	return watchedTx{tx, w.began}, err
}

func (w watchedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	w.began(w.Tx)
	return w.Tx.Query(ctx, sql, args...)
}

// An export takes its turn among the other calls that read points, and its statements may take longer than others.
func TestStore_Export_waitsAndHasTime(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(15, 16))
	b := open(t)
	d := &drawn{id: "waits", keys: [2]reports{drawReports(draw, 50, 0), drawReports(draw, 50, 0)}}
	d.store(b, draw)
	gate := run.NewGate()
	limits := map[string]bool{}
	store := NewStore(&watched{b.pool, func(tx pgx.Tx) {
		var limit string
		require.NoError(t, tx.QueryRow(t.Context(), `SHOW statement_timeout`).Scan(&limit))
		limits[limit] = true
	}}, gate)
	ctx := authn.NewContext(t.Context(), &authn.Caller{Subject: "usr_1"})
	var leave []func()
	for range 2 {
		l, err := gate.Enter(ctx, run.CallerReader(ctx))
		require.NoError(t, err)
		leave = append(leave, l)
	}
	export := func(ctx context.Context) (points int, err error) {
		err = store.Export(ctx, d.id, nil, 0, nil, func(string, Seen) error {
			reading, _ := gate.Load()
			require.Positive(t, reading)
			points++
			return nil
		})
		return points, err
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	points, err := export(short)
	require.Zero(t, points)
	require.True(t, fault.HasCode(err, fault.CodeDeadline), "%v", err)
	for _, l := range leave {
		l()
	}
	_, err = export(ctx)
	require.NoError(t, err)
	reading, _ := gate.Load()
	require.Zero(t, reading)
	require.Equal(t, map[string]bool{"10min": true}, limits)
}

// The ranks of a run have more keys together than one of them.
func TestStore_Export_hasKeysOfAllRanks(t *testing.T) {
	t.Parallel()
	b := open(t)
	_, err := b.pool.Exec(t.Context(), `INSERT INTO metric_key (run_id, id, key, rank)
		SELECT 'run_1', n, convert_to('key ' || n, 'UTF8'), n / $1 FROM generate_series(1, $2::int) n`, MaxKeys, MaxSeries)
	require.NoError(t, err)
	ids, series, err := NewStore(b.pool, run.NewGate()).exportedKeys(t.Context(), "run_1", nil)
	require.NoError(t, err)
	require.Len(t, ids, MaxSeries)
	require.Len(t, series, MaxSeries)
	ids, _, err = NewStore(b.pool, run.NewGate()).Showing(0, new(int32(1)), 1).exportedKeys(t.Context(), "run_1", nil)
	require.NoError(t, err)
	require.Len(t, ids, MaxKeys)
}

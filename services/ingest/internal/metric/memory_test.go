package metric

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// fill stores a run with the given number of keys and steps. The second half of the steps belongs to a second attempt.
func (b *harness) fill(runID string, keys, steps int) {
	b.t.Helper()
	const perRow = 20
	err := pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, attempt, batch_seq, key_count)
			VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now(), 2, $2, $3)`, runID, steps/perRow, keys)
		batch.Queue(`INSERT INTO metric_key (run_id, id, key) SELECT $1, n, convert_to('key ' || n, 'UTF8') FROM generate_series(1, $2) n`, runID, keys)
		batch.Queue(`INSERT INTO attempt_step (run_id, attempt, low_step) VALUES ($1, 2, $2)`, runID, steps/2)
		points := make([]Point, 0, keys*perRow)
		for row := range steps / perRow {
			points = points[:0]
			for i := range keys * perRow {
				step := int64(row*perRow + i/keys)
				points = append(points, Point{Key: int32(i%keys) + 1, Step: step, Value: float64(i), Micros: step})
			}
			batch.Queue(`INSERT INTO metric_batch (run_id, seq, attempt, points, data, created_at) VALUES ($1, $2, $3, $4, $5, now())`,
				runID, row+1, 1+2*row*perRow/steps, len(points), Pack(points))
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	require.NoError(b.t, err)
}

// allocated returns how many bytes List allocates for the series of a run.
func (b *harness) allocated(store *Store, runID string, keys ...string) uint64 {
	b.t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	series, _, err := store.List(b.t.Context(), runID, keys, request.Page{Limit: request.MaxLimit})
	runtime.ReadMemStats(&after)
	require.NoError(b.t, err)
	require.NotEmpty(b.t, series)
	return after.TotalAlloc - before.TotalAlloc
}

// This test is not parallel, because it measures the memory of the process.
func TestStore_List_memoryDoesNotGrowWithRun(t *testing.T) {
	b := open(t)
	store := NewStore(b.pool, run.NewGate())
	b.fill("short", 100, 5_000)
	b.fill("long", 100, 20_000)
	b.allocated(store, "short") // prepares the statements
	short, long := b.allocated(store, "short"), b.allocated(store, "long")
	t.Logf("allocated for half a million points: %d MiB, for two million: %d MiB", short>>20, long>>20)
	require.Less(t, long, short+short/4, "reading a run that is four times as long needs about the same memory")
	require.Less(t, long, uint64(64<<20))
	one := b.allocated(store, "long", "key 7")
	require.Less(t, one, uint64(64<<20), "reading one key must not need more than 64 MiB")
}

// This test is not parallel, because it measures the memory of the process.
func TestView_memoryDoesNotGrowWithSeries(t *testing.T) {
	collect := func(steps int64) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v := newView(maxPoints)
		for step := range steps {
			v.add(1, Point{Step: step, Value: float64(step % 97)})
		}
		seen := v.seen(maxPoints)
		runtime.ReadMemStats(&after)
		require.Greater(t, len(seen), maxPoints/2)
		require.Nil(t, v.points, "the view keeps no memory")
		return after.TotalAlloc - before.TotalAlloc
	}
	short, long := collect(100_000), collect(2_000_000)
	t.Logf("allocated for 100,000 points: %d KiB, for two million: %d KiB", short>>10, long>>10)
	require.Less(t, long, short+short/4)
	require.Less(t, long, uint64(10<<20), "growing a view must not allocate many copies of its points")
}

func TestStore_List_boundsConcurrentReads(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns("a", 1, 1)))
	store := NewStore(b.pool, run.NewGate())
	var leave func()
	const atOnce = 4
	for i := range atOnce {
		var err error
		leave, err = store.gate.Enter(t.Context(), run.CallerReader(byUser(t.Context(), fmt.Sprint(i))))
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := store.List(ctx, "run_1", nil, request.Page{Limit: 1})
		ended <- err
	}()
	cancel()
	require.Error(t, <-ended, "a call that waits ends with its context")
	leave()
	for i := range 3 {
		series, _, err := store.List(t.Context(), "run_1", nil, request.Page{Limit: 1})
		require.NoError(t, err, fmt.Sprint(i))
		require.Len(t, series, 1)
	}
	reading, _ := store.gate.Load()
	require.Equal(t, atOnce-1, reading, "each call makes room for the next")
}

// This test is not parallel, because it measures the memory of the process.
func TestStore_Charts_memoryDoesNotGrowWithRun(t *testing.T) {
	b := open(t)
	store := NewStore(b.pool, run.NewGate())
	b.fill("short", 10, 20_000)
	b.fill("long", 10, 80_000)
	allocated := func(runID string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		charts, _, err := store.Charts(t.Context(), runID, nil, All(Times), 2000, request.Page{Limit: request.MaxLimit})
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Len(t, charts[0].Buckets, 2000)
		return after.TotalAlloc - before.TotalAlloc
	}
	allocated("short") // prepares the statements
	short, long := allocated("short"), allocated("long")
	t.Logf("allocated for 200,000 points: %d KiB, for 800,000: %d KiB", short>>10, long>>10)
	require.Less(t, long, short+short/4)
	require.Less(t, long, uint64(32<<20))
}

func TestLatePoints_boundedAndCut(t *testing.T) {
	t.Parallel()
	l := &latePoints{from: 0, to: math.MaxInt64, most: 100}
	for step := range int64(10_000) {
		for value := range 2 {
			l.add(latePoint{1, Seen{Step: 10_000 - step, Value: float64(value)}})
			l.add(latePoint{2, Seen{Step: 10_000 - step, Value: float64(value)}})
		}
		require.LessOrEqual(t, len(l.points), 2*l.most)
	}
	l.finish()
	require.LessOrEqual(t, len(l.points), l.most)
	require.Positive(t, len(l.points), "every part makes progress")
	require.Equal(t, latePoint{1, Seen{Step: 1, Value: 1}}, l.points[0], "the last point of a step is kept")
	require.EqualValues(t, len(l.points), 2*l.to, "both keys of every step of the range are kept")
}

func TestRecent_boundedAndInOrder(t *testing.T) {
	t.Parallel()
	r := &recent{room: 10}
	last, late := int64(math.MinInt64), 0
	for i := range int64(1000) {
		for _, step := range []int64{i, i - 3, i - 30} {
			if !r.add(Seen{Step: step, Value: float64(i)}) {
				late++
			}
			for _, s := range r.full() {
				require.Greater(t, s.Step, last)
				last = s.Step
			}
			require.Less(t, len(r.points), 2*r.room)
		}
	}
	require.Greater(t, late, 900, "points that are too old are late")
	require.Less(t, late, 1001, "the others are put in order")
}

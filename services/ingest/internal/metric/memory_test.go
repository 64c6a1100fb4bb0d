package metric

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// fill stores a run with the given number of keys and steps. The second half of the steps is of a second attempt.
func (b *harness) fill(runID string, keys, steps int) {
	b.t.Helper()
	const perRow = 20
	err := pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, attempt, batch_seq, key_count)
			VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now(), 2, $2, $3)`, runID, steps/perRow, keys)
		batch.Queue(`INSERT INTO metric_key (run_id, id, key) SELECT $1, n, convert_to('key ' || n, 'UTF8') FROM generate_series(1, $2) n`, runID, keys)
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
	store := NewStore(b.pool)
	b.fill("short", 100, 5_000)
	b.fill("long", 100, 20_000)
	b.allocated(store, "short") // prepares the statements
	short, long := b.allocated(store, "short"), b.allocated(store, "long")
	t.Logf("allocated for half a million points: %d MiB, for two million: %d MiB", short>>20, long>>20)
	require.Less(t, long, short+short/4, "a run of four times the length")
	require.Less(t, long, uint64(64<<20))
	one := b.allocated(store, "long", "key 7")
	require.Less(t, one, uint64(64<<20), "one key of a run")
}

func TestStore_List_boundsConcurrentReads(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns("a", 1, 1)))
	store := NewStore(b.pool)
	for range maxReads {
		store.reads <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := store.List(ctx, "run_1", nil, request.Page{Limit: 1})
		ended <- err
	}()
	cancel()
	require.Error(t, <-ended, "a call that waits ends with its context")
	<-store.reads
	for i := range 3 {
		series, _, err := store.List(t.Context(), "run_1", nil, request.Page{Limit: 1})
		require.NoError(t, err, fmt.Sprint(i))
		require.Len(t, series, 1)
	}
	require.Len(t, store.reads, maxReads-1, "each call makes room for the next")
}

package metric

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

// compactor returns a compactor that moves rows of any age, in segments of about the given number of points.
func (b *harness) compactor(most int) *Compactor {
	b.t.Helper()
	c, err := NewCompactor(b.pool, clock.Real(), slog.New(slog.DiscardHandler), nil)
	require.NoError(b.t, err)
	c.age, c.most, c.rest = -time.Hour, most, 0
	return c
}

// seqs returns the number of rows, segments and blocks, and of runs that the compactor may have to examine.
func (b *harness) seqs() (rows, segments, blocks, runs int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT (SELECT count(*) FROM metric_batch), (SELECT count(*) FROM metric_segment),
		(SELECT count(*) FROM metric_block), (SELECT count(*) FROM metric_hot)`).Scan(&rows, &segments, &blocks, &runs))
	return rows, segments, blocks, runs
}

func steps(key string, from, n int) []any {
	var points []any
	for i := range n {
		points = append(points, key, from+i, i)
	}
	return points
}

func TestCompactor_openRunWaitsForFullBlocks(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns(steps("a", 0, blockSize-1)...)))
	c := b.compactor(segmentPoints)
	require.NoError(t, c.pass(t.Context()))
	rows, segments, _, runs := b.seqs()
	require.Equal(t, []int{1, 0, 1}, []int{rows, segments, runs}, "there are too few points")
	require.NoError(t, b.put(1, columns("a", blockSize, 1)))
	require.NoError(t, c.pass(t.Context()))
	rows, _, _, _ = b.seqs()
	require.Equal(t, 2, rows, "the run is not due again yet")
	b.exec(`UPDATE metric_hot SET due = now() - interval '1 minute'`)
	c.age = hotAge
	require.NoError(t, c.pass(t.Context()))
	rows, _, _, _ = b.seqs()
	require.Equal(t, 2, rows, "young rows stay")
	b.exec(`UPDATE metric_hot SET due = now() - interval '1 minute'`)
	c.age = -time.Hour
	require.NoError(t, c.pass(t.Context()))
	rows, segments, blocks, runs := b.seqs()
	require.Equal(t, []int{0, 1, 1, 1}, []int{rows, segments, blocks, runs})
	require.Len(t, b.allPoints(), blockSize)
}

func (b *harness) exec(sql string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql)
	require.NoError(b.t, err)
}

func TestCompactor_closedRunKeepsFewPointsInRows(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns(append(steps("a", 0, leastBlock), "b", 1, 1)...)))
	b.exec(`UPDATE run SET closed_at = now()`)
	c := b.compactor(segmentPoints)
	require.NoError(t, c.pass(t.Context()))
	rows, segments, _, runs := b.seqs()
	require.Equal(t, []int{1, 0, 0}, []int{rows, segments, runs}, "blocks would be too small")
	b.exec(`UPDATE run SET closed_at = NULL`)
	require.NoError(t, b.put(1, columns(steps("b", 2, leastBlock)...)))
	b.exec(`UPDATE run SET closed_at = now()`)
	b.exec(`INSERT INTO metric_hot VALUES ('run_1', now() - interval '1 minute')`)
	require.NoError(t, c.pass(t.Context()))
	rows, segments, _, runs = b.seqs()
	require.Equal(t, []int{0, 1, 0}, []int{rows, segments, runs})
}

// A run whose rows cannot be decoded must not stop the compactor, and keeps its rows.
func TestCompactor_continuesAfterFailure(t *testing.T) {
	t.Parallel()
	b := open(t)
	require.NoError(t, b.put(1, columns(steps("a", 0, 2*blockSize)...)))
	b.exec(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at, closed_at, batch_seq, key_count)
		VALUES ('bad', 'job', 'usr', 'prj', 'team', 'team', now(), now(), 1, 1)`)
	b.exec(`INSERT INTO metric_batch (run_id, seq, attempt, points, data, created_at) VALUES ('bad', 1, 1, 5000, '\x09', now())`)
	b.exec(`INSERT INTO metric_hot VALUES ('bad', now() - interval '1 hour')`)
	require.NoError(t, b.compactor(segmentPoints).pass(t.Context()))
	rows, segments, blocks, runs := b.seqs()
	require.Equal(t, []int{1, 1, 2, 2}, []int{rows, segments, blocks, runs})
	var later bool
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT due > now() FROM metric_hot WHERE run_id = 'bad'`).Scan(&later))
	require.True(t, later)
}

// Several replicas move the rows of runs that are reporting. No point is lost or doubled, even if steps are cancelled.
func TestCompactor_severalReplicasLoseNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	const requests, runs = 120, 3
	for i := range runs {
		b.exec(fmt.Sprintf(`INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at)
			VALUES ('r%d', 'job', 'usr', 'prj', 'team', 'team', now())`, i))
	}
	ctx, stop := context.WithCancel(t.Context())
	var compactors, writers sync.WaitGroup
	for range 3 {
		compactors.Go(func() {
			c := b.compactor(500)
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = b.pool.Exec(ctx, `UPDATE metric_hot SET due = now() - interval '1 minute' WHERE due > now()`)
				limit := time.Minute
				if n%3 == 0 {
					limit = time.Duration(n%20) * time.Millisecond
				}
				limited, cancel := context.WithTimeout(ctx, limit)
				_, _ = c.step(limited)
				cancel()
			}
		})
	}
	for i := range runs {
		writers.Go(func() {
			for n := range requests {
				_, err := b.store.Store(t.Context(), groupcommit.Item{
					RunID: fmt.Sprintf("r%d", i), Attempt: 1, Write: Write(b.keys, columns(steps("a", n*100, 100)...)),
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	stop()
	compactors.Wait()
	for i := range runs {
		batches := b.followAll(fmt.Sprintf("r%d", i), 0)
		require.Len(t, batches, requests)
		for n, batch := range batches {
			require.EqualValues(t, n+1, batch.Seq)
			require.Len(t, batch.Points, 100)
			require.EqualValues(t, n*100+99, batch.Points[99].Step)
		}
	}
	_, segments, _, _ := b.seqs()
	require.Positive(t, segments)
}

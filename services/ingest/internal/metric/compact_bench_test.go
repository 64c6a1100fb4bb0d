package metric

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

// BenchmarkWrite_besideCompactor compares the rate of reports while rows are moved with the rate while they are not: of 16
// writers with 1,000 points each, and of 256 with 10 points.
func BenchmarkWrite_besideCompactor(b *testing.B) {
	for _, c := range []struct {
		name                      string
		writers, points, requests int
	}{{"I1", 16, 1000, 3000}, {"I4", 256, 10, 20_000}} {
		b.Run(fmt.Sprintf("%d writers of %d points", c.writers, c.points), func(b *testing.B) {
			h := open(b)
			var points []any
			for i := range c.points {
				points = append(points, fmt.Sprintf("key %d", i%10), i/10, i)
			}
			request := columns(points...)
			for i := range c.writers {
				_, err := h.pool.Exec(b.Context(), `INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at)
					VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now())`, fmt.Sprintf("w%d", i))
				require.NoError(b, err)
			}
			var alone, beside []float64
			for range rounds + 1 {
				alone = append(alone, h.rate(c.writers, c.requests, request))
				stop := h.keepCompacting()
				beside = append(beside, h.rate(c.writers, c.requests, request))
				stop()
			}
			slices.Sort(alone)
			slices.Sort(beside)
			rows, segments, _, _ := h.seqs()
			ratio := beside[rounds/2] / alone[rounds/2]
			g := goal{fmt.Sprintf("like %s, %d writers of %d points: reports beside the compactor / without it", c.name, c.writers, c.points), 0.95, true}
			b.Logf("%s: %.3g (goal: %s): %s", g.what, ratio, g, g.verdict(ratio))
			b.ReportMetric(ratio, "times")
			b.ReportMetric(alone[rounds/2], "alone/s")
			b.ReportMetric(float64(segments), "segments")
			b.ReportMetric(float64(rows), "rows")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// rate returns the reports per second of writers that together send the given number of requests.
func (b *harness) rate(writers, requests int, c *decode.Columns) float64 {
	b.t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for range requests / writers {
				_, err := b.store.Store(b.t.Context(), groupcommit.Item{RunID: fmt.Sprintf("w%d", i), Attempt: 1, Write: Write(b.keys, c)})
				if err != nil {
					b.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return float64(requests) / time.Since(began).Seconds()
}

// keepCompacting moves rows of any age as fast as the compactor does in operation. The function stop ends that.
func (b *harness) keepCompacting() (stop func()) {
	b.t.Helper()
	c := b.compactor(segmentPoints)
	c.rest = restFactor
	ctx, cancel := context.WithCancel(b.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			_, _ = b.pool.Exec(ctx, `UPDATE metric_hot SET due = now() - interval '1 second' WHERE due > now()`)
			_ = c.pass(ctx)
			_ = clock.Sleep(ctx, clock.Real(), 100*time.Millisecond)
		}
	})
	return func() { cancel(); done.Wait() }
}

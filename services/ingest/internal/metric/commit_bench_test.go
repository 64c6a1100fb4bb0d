package metric

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

// BenchmarkWrite_besideRefusedRun stores reports of 64 runs while one more run keeps reporting more keys than a run may
// have. An operation is one stored report. The case "alone" omits the additional run.
func BenchmarkWrite_besideRefusedRun(b *testing.B) {
	for name, refused := range map[string]int{"alone": 0, "beside": 16} {
		b.Run(name, func(b *testing.B) { reportBeside(b, refused) })
	}
}

// reportBeside runs one writer for each of 64 runs. The parameter refused is the number of additional writers of one
// more run, whose reports are all refused.
func reportBeside(b *testing.B, refused int) {
	b.Helper()
	const runs = 64
	h := open(b)
	for i := range runs {
		_, err := h.pool.Exec(b.Context(), `INSERT INTO run (id, job_id, owner_id, project_id, project, visibility, created_at)
			VALUES ($1, 'job', 'usr', 'prj', 'team', 'team', now())`, fmt.Sprintf("other_%d", i))
		require.NoError(b, err)
	}
	full := make([]any, 0, 3*MaxKeys)
	for i := range MaxKeys {
		full = append(full, fmt.Sprintf("k%d", i), 1, 1)
	}
	require.NoError(b, h.put(1, columns(full...)))
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var healthy, broken sync.WaitGroup
	over := make(chan struct{})
	for range refused {
		broken.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := h.put(1, columns("one more", 1, 1)); !fault.HasCode(err, "metric_keys") {
					b.Error(err)
					return
				}
			}
		})
	}
	for i := range runs {
		healthy.Go(func() {
			for left.Add(-1) >= 0 {
				_, err := h.store.Store(b.Context(), groupcommit.Item{
					RunID: fmt.Sprintf("other_%d", i), Attempt: 1, Write: Write(h.keys, columns("loss", 1, 1, "lr", 1, 1)),
				})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	healthy.Wait()
	b.StopTimer()
	close(over)
	broken.Wait()
}

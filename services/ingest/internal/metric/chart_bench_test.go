package metric

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// BenchmarkStore_Charts reads runs of a million points: as the thinned points of List, as charts and as summaries.
func BenchmarkStore_Charts(b *testing.B) {
	h := open(b)
	for _, keys := range []int{1, 100} {
		h.fill(fmt.Sprint(keys), keys, 1_000_000/keys)
	}
	store := NewStore(h.pool, run.NewGate())
	page := request.Page{Limit: request.MaxLimit}
	for _, keys := range []int{1, 100} {
		id := fmt.Sprint(keys)
		reads := map[string]func() error{
			"points":  func() error { _, _, err := store.List(b.Context(), id, nil, page); return err },
			"buckets": func() error { _, _, err := store.Charts(b.Context(), id, nil, All(Steps), 1000, page); return err },
			"summary": func() error { _, _, err := store.Charts(b.Context(), id, nil, All(Steps), 0, page); return err },
		}
		for name, read := range reads {
			b.Run(fmt.Sprintf("%s/%d keys", name, keys), func(b *testing.B) {
				for b.Loop() {
					require.NoError(b, read())
				}
			})
		}
	}
}

package traffic

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkStore_Put stores full batches of calls, with their rollups.
func BenchmarkStore_Put(b *testing.B) {
	for _, tokens := range []int{1, 100} {
		b.Run(fmt.Sprint(tokens, " tokens"), func(b *testing.B) {
			s, _ := testStore(b)
			calls := testCalls(batchMax, time.Now().UTC().Truncate(time.Hour))
			for n, c := range calls {
				c.TokenID, c.Duration = fmt.Sprint("tok_", n%tokens), float64(n)
			}
			stored := 0
			for b.Loop() {
				if _, err := s.Put(b.Context(), fmt.Sprint("b", stored), calls); err != nil {
					b.Fatal(err)
				}
				stored++
			}
			b.ReportMetric(float64(batchMax*stored)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

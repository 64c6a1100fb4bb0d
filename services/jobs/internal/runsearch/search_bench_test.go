package runsearch

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

// BenchmarkSearch compares the first page of the list of runs with 100,000 runs and with 1,000.
func BenchmarkSearch(b *testing.B) {
	few, many := newHarness(b), newHarness(b)
	few.fill(1000)
	many.fill(100_000)
	b.Run("Q5 list of runs", func(b *testing.B) {
		const rounds, calls = 9, 20
		var times [2][]float64
		for range rounds + 1 {
			for i, h := range []*harness{few, many} {
				began := time.Now()
				for range calls {
					require.NotEmpty(b, h.find(userIn(h, "carol", "prj_1", "prj_2"), &jobsv1.SearchRunsRequest{}).GetRuns())
				}
				times[i] = append(times[i], time.Since(began).Seconds())
			}
		}
		for i := range times {
			times[i] = times[i][1:] // the first round warms up
			slices.Sort(times[i])
		}
		ratio, verdict := times[1][rounds/2]/times[0][rounds/2], "met"
		const goal = 1.2
		if ratio > goal {
			verdict = "not met"
		}
		load, err := os.ReadFile("/proc/loadavg")
		require.NoError(b, err)
		b.ReportMetric(ratio, "ratio")
		b.ReportMetric(0, "ns/op")
		b.Logf("Q5 list of 100,000 runs / of 1,000: %.3g (goal: at most %g): %s; load %s", ratio, goal, verdict, strings.Fields(string(load))[0])
	})
}

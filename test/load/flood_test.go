package load

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/e2eflow"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// flooding writes 5 GB of lines within the given number of seconds, or as fast as it can if that is later. It ends with a
// line that contains the time that this took.
const flooding = `
import os, sys, time
text = (b"x" * 1023 + b"\n") * 1024
began = time.monotonic()
for n in range(5 * 1024):
    time.sleep(max(0, began + float(sys.argv[1]) * n / (5 * 1024) - time.monotonic()))
    os.write(1, text)
print("flooded in", time.monotonic() - began, flush=True)
`

// smallJobs is how many short jobs run one after another before the flood.
const smallJobs = 10

// BenchmarkLogFlood compares the time that short jobs take on a quiet node with their time while another job writes 5 GB
// of output in 15 seconds, or as fast as it can. It also prints how soon the flooding job counts as ended after its
// process has ended.
func BenchmarkLogFlood(b *testing.B) {
	b.Run("in_15_s", func(b *testing.B) { benchmarkFlood(b, "15") })
	b.Run("at_once", func(b *testing.B) { benchmarkFlood(b, "0") })
}

func benchmarkFlood(b *testing.B, seconds string) {
	b.Helper()
	s := testenv.Single(b, testenv.Options{})
	ctx := b.Context()
	l := s.Loop(ctx)
	for b.Loop() {
		smallJob(ctx, b, s, l) // prepares the environment that all the jobs use
		quiet := smallJobTimes(ctx, b, s, l)
		flood := *l
		require.NoError(b, flood.Submit(ctx, testenv.Command(ctx, s, &flood, "/usr/bin/python3", "-c", flooding, seconds)))
		require.NoError(b, flood.AwaitState(ctx, "running"))
		began, ended, after := time.Now(), make(chan error, 1), time.Duration(0)
		go func() {
			err := flood.AwaitEnd(ctx)
			after = time.Since(began)
			ended <- err
		}()
		var busy []time.Duration
		for running := true; running; {
			took := smallJob(ctx, b, s, l)
			select {
			case err := <-ended:
				require.NoError(b, err, s.Tail())
				running = false // the flood may have ended before the last job
			default:
				busy = append(busy, took)
			}
		}
		require.Greater(b, len(busy), 2, "too few short jobs ran during the flood")
		last := ""
		require.NoError(b, flood.FollowLogs(ctx, func(line e2eflow.LogLine) {
			if strings.HasPrefix(line.Text, "flooded in") {
				last = line.Text
			}
		}))
		require.NotEmpty(b, last, "the last lines of a log must be kept")
		b.Logf("short jobs, median and slowest: %d on a quiet node %v %v, %d during the flood %v %v; the flood %s s and had ended after %v",
			smallJobs, middle(quiet), slices.Max(quiet), len(busy), middle(busy), slices.Max(busy), strings.TrimPrefix(last, "flooded "), after)
		b.ReportMetric(middle(busy).Seconds()/middle(quiet).Seconds(), "during/quiet")
	}
}

func middle(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2].Round(time.Millisecond)
}

// smallJobTimes returns how long each of the short jobs took, from its submission to its end.
func smallJobTimes(ctx context.Context, b *testing.B, s *testenv.Installation, l *e2eflow.Loop) (times []time.Duration) {
	b.Helper()
	for range smallJobs {
		times = append(times, smallJob(ctx, b, s, l))
	}
	return times
}

func smallJob(ctx context.Context, b *testing.B, s *testenv.Installation, l *e2eflow.Loop) time.Duration {
	b.Helper()
	one := *l
	began := time.Now()
	require.NoError(b, one.Submit(ctx, testenv.Command(ctx, s, &one, "/bin/true")))
	require.NoError(b, one.AwaitEnd(ctx), s.Tail())
	return time.Since(began)
}

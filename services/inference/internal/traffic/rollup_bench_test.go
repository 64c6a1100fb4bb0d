package traffic

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// databaseTime returns the CPU time of the processes of Postgres that serve the store's connections. It returns false if
// they run on another machine.
func databaseTime(ctx context.Context, tb testing.TB, s *Store) (time.Duration, bool) {
	tb.Helper()
	rows, err := s.Pool.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'`)
	require.NoError(tb, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(tb, err)
	var total time.Duration
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			return 0, false
		}
		first, _, _ := strings.Cut(string(stat), " ")
		spent, err := strconv.ParseInt(first, 10, 64)
		require.NoError(tb, err)
		total += time.Duration(spent)
	}
	return total, true
}

// callsOfTokens returns n calls that are spread over the given number of tokens. Their durations have about 60 buckets.
func callsOfTokens(n, tokens int) []*Call {
	calls, source, model, reason, count := testCalls(n, time.Now()), ids(), "mock-model", "stop", int32(20)
	deployment, revision, replica := source.New("dep"), source.New("rev"), source.New("rep")
	for i, c := range calls {
		c.DeploymentID, c.RevisionID, c.ReplicaID, c.TokenID = deployment, revision, replica, fmt.Sprint("tok_01kab3c4d5e6f7g8h9j0kmn", i%tokens)
		c.Path, c.RequestedModel, c.ResponseModel, c.FinishReason = "/v1/chat/completions", &model, &model, &reason
		c.PromptTokens, c.CompletionTokens, c.UsageSource = &count, &count, UsageEngine
		c.Duration = 3 + 30*float64(i*7919%1000)/1000
		first := 0.9 * c.Duration
		c.TTFT, c.ResponseBytes = &first, 1024
	}
	return calls
}

// BenchmarkStore_Put stores batches of calls, with their rollups. The sizes are those of about 1,000, 7,000 and 17,500 calls
// a second, and that of a full batch.
func BenchmarkStore_Put(b *testing.B) {
	for _, tokens := range []int{1, 100} {
		for _, size := range []int{20, 140, 350, batchMax} {
			b.Run(fmt.Sprintf("tokens=%d/calls=%d", tokens, size), func(b *testing.B) {
				s, _ := testStore(b)
				require.NoError(b, s.EnsurePartitions(b.Context()))
				batches := make([][]*Call, 8)
				for i := range batches {
					batches[i] = callsOfTokens(size, tokens)
				}
				stored := 0
				put := func() {
					_, err := s.Put(b.Context(), ids().New("call"), batches[stored%len(batches)])
					require.NoError(b, err)
					stored++
				}
				for range batches {
					put()
				}
				before, _ := databaseTime(b.Context(), b, s)
				stored = 0
				for b.Loop() {
					put()
				}
				calls := float64(size * stored)
				b.ReportMetric(float64(b.Elapsed().Microseconds())/calls, "us/call")
				if after, ok := databaseTime(b.Context(), b, s); ok {
					b.ReportMetric(float64((after-before).Microseconds())/calls, "postgres-us/call")
				}
			})
		}
	}
}

func BenchmarkRollUp(b *testing.B) {
	for _, tokens := range []int{1, 100} {
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			calls := callsOfTokens(140, tokens)
			for b.Loop() {
				rollupArgs(rollUp(calls))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(calls)), "ns/call")
		})
	}
}

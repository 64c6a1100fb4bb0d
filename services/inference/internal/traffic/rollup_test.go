package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/test/draw"
)

// variedCalls returns n calls of two revisions and three tokens, which begin within the given span after a given time.
// Their durations are spread over five orders of magnitude.
func variedCalls(n int, began time.Time, span time.Duration) []*Call {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	calls := testCalls(n, began)
	for i, c := range calls {
		c.At = began.Add(time.Duration(random.Int64N(int64(span)))).Truncate(time.Microsecond)
		c.TokenID, c.RevisionNumber = fmt.Sprint("tok_", random.IntN(3)), int32(1+random.IntN(2))
		c.Outcome = []string{OK, OK, ClientClosed, EngineError, ClientError}[random.IntN(5)]
		c.Duration = 0.05 * float64(int64(1)<<random.IntN(17)) * (1 + random.Float64())
		if tokens := int32(i); i%3 > 0 {
			first := c.Duration / 2
			c.TTFT, c.PromptTokens = &first, &tokens
		}
	}
	return calls
}

// near requires that two percentiles differ by at most percentileError.
func near(t *testing.T, want, got *float64, what string) {
	t.Helper()
	require.Equal(t, want == nil, got == nil, what)
	if want != nil {
		require.InEpsilon(t, *want, *got, percentileError, what)
	}
}

// sameSeries requires that a series computed from rollups equals the exact series, except for the permitted error
// of its percentiles.
func sameSeries(t *testing.T, exact, got []Point) {
	t.Helper()
	require.Len(t, got, len(exact))
	for i, want := range exact {
		near(t, want.TTFT50, got[i].TTFT50, "the median of ttft_ms")
		near(t, want.TTFT95, got[i].TTFT95, "p95 of ttft_ms")
		near(t, want.Duration50, got[i].Duration50, "the median of duration_ms")
		near(t, want.Duration95, got[i].Duration95, "p95 of duration_ms")
		sums := got[i]
		require.True(t, want.At.Equal(sums.At), "the point must begin at %s, not at %s", want.At, sums.At)
		sums.At, sums.TTFT50, sums.TTFT95, sums.Duration50, sums.Duration95 = want.At, want.TTFT50, want.TTFT95, want.Duration50, want.Duration95
		require.Equal(t, want, sums, "counts must be exact")
	}
}

func TestStore_Series_comparedWithExact(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	began := time.Now().UTC().Truncate(24 * time.Hour).Add(3 * time.Hour)
	calls := variedCalls(6000, began, 3*time.Hour)
	for i := 0; i < len(calls); i += 100 {
		for range 2 {
			_, err := s.Put(t.Context(), fmt.Sprint("b", i), calls[i:i+100])
			require.NoError(t, err)
		}
	}
	one, end := int32(1), began.Add(3*time.Hour)
	for _, token := range []string{"", "tok_1", "tok_unused"} {
		for _, revision := range []*int32{nil, &one} {
			for _, step := range []time.Duration{time.Minute, 7 * time.Minute, time.Hour, 24 * time.Hour} {
				f := Filter{From: &began, To: &end, Token: token, Revision: revision}
				exact, err := s.exactSeries(t.Context(), "dep_a", f, step, nil)
				require.NoError(t, err)
				got, err := s.Series(t.Context(), "dep_a", f, step)
				require.NoError(t, err)
				require.Equal(t, token != "tok_unused", len(got) > 0)
				sameSeries(t, exact, got)
			}
		}
	}
	part, until := began.Add(time.Hour), end.Add(-time.Hour)
	got, err := s.Series(t.Context(), "dep_a", Filter{From: &part, To: &until}, 24*time.Hour)
	require.NoError(t, err)
	exact, err := s.exactSeries(t.Context(), "dep_a", Filter{From: &part, To: &until}, time.Hour, nil)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, exact[0].Calls, got[0].Calls, "calls outside of the range must not count")
	require.Positive(t, got[0].ClientError)
}

// Three calls have values that are too small or too large for the buckets, and the table refuses the fourth call.
func TestStore_Series_unusualCalls(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	began := time.Now().UTC().Truncate(time.Hour)
	calls := testCalls(4, began)
	zero := 0.0
	calls[0].TTFT, calls[1].Duration, calls[2].Duration = &zero, 1e300, 0.01
	calls[3].Outcome = "unheard of"
	refused, err := s.Put(t.Context(), "b1", calls)
	require.NoError(t, err)
	require.Equal(t, 1, refused)
	until := began.Add(time.Minute)
	points, err := s.Series(t.Context(), "dep_a", Filter{From: &began, To: &until}, time.Minute)
	require.NoError(t, err)
	require.Len(t, points, 1)
	require.Equal(t, int64(3), points[0].Calls, "a refused call must not count")
	require.Zero(t, *points[0].TTFT95)
	require.Zero(t, *points[0].Duration50)
	require.Greater(t, *points[0].Duration95, 1e12)
}

// Replicas store calls of the same minutes at the same time.
func TestStore_Put_concurrentRollups(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	require.NoError(t, s.EnsurePartitions(t.Context()))
	began := time.Now().UTC().Truncate(24 * time.Hour)
	const replicas, batches, size = 6, 10, 50
	done := make(chan error)
	for replica := range replicas {
		go func() {
			done <- func() error {
				for i := range batches {
					if _, err := s.Put(t.Context(), fmt.Sprint("b", replica, ".", i), variedCalls(size, began, time.Hour)); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range replicas {
		require.NoError(t, <-done)
	}
	until := began.Add(time.Hour)
	points, err := s.Series(t.Context(), "dep_a", Filter{From: &began, To: &until}, time.Hour)
	require.NoError(t, err)
	require.Len(t, points, 1)
	require.Equal(t, int64(replicas*batches*size), points[0].Calls)
}

// After an upgrade, a series reads calls that are older than the rollups one by one.
func TestStore_Series_callsBeforeRollups(t *testing.T) {
	t.Parallel()
	s, d := testStore(t)
	began := time.Now().UTC().Truncate(24 * time.Hour).Add(3 * time.Hour)
	calls := variedCalls(2000, began, 3*time.Hour)
	_, err := s.Put(t.Context(), "b", calls)
	require.NoError(t, err)
	since, end := began.Add(90*time.Minute), began.Add(3*time.Hour)
	_, err = d.OwnerPool("inference").Exec(t.Context(), `UPDATE call_rollup_since SET since = $1`, since)
	require.NoError(t, err)
	_, err = d.OwnerPool("inference").Exec(t.Context(), `DELETE FROM call_rollup WHERE at < $1`, since.Truncate(time.Hour))
	require.NoError(t, err)
	for _, step := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		f := Filter{From: &began, To: &end}
		exact, err := s.exactSeries(t.Context(), "dep_a", f, step, nil)
		require.NoError(t, err)
		got, err := s.Series(t.Context(), "dep_a", f, step)
		require.NoError(t, err)
		sameSeries(t, exact, got)
	}
	require.True(t, end.Equal(began.Add(3*time.Hour)), "the caller's range must not be changed")
}

func TestStore_Series_tooManyExactCalls(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	began := time.Now().UTC().Truncate(24 * time.Hour)
	_, err := s.Put(t.Context(), "b", variedCalls(20, began, time.Minute))
	require.NoError(t, err)
	until, most := began.Add(time.Minute), int64(20)
	f := Filter{From: &began, To: &until}
	points, err := s.exactSeries(t.Context(), "dep_a", f, time.Second, &most)
	require.NoError(t, err)
	require.NotEmpty(t, points)
	most--
	_, err = s.exactSeries(t.Context(), "dep_a", f, time.Second, &most)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	points, err = s.Series(t.Context(), "dep_a", f, time.Second)
	require.NoError(t, err)
	require.NotEmpty(t, points)
}

func TestStore_DeleteRollups(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	_, err := s.Put(t.Context(), "b", append(testCalls(3, today), testCalls(3, today.Add(-time.Hour))...))
	require.NoError(t, err)
	require.Equal(t, 8, count(t, s, "call_rollup"), "each call must have rollups of a minute and of an hour, for its token and for all tokens")
	for _, want := range []int64{3, 1, 0} {
		n, err := s.DeleteRollups(t.Context(), today, 3)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	require.Equal(t, 4, count(t, s, "call_rollup"))
}

var rowsRead = regexp.MustCompile(`actual rows=(\d+)`)

// planRows returns the largest number of rows that any node of the query's plan returned.
func planRows(t *testing.T, s *Store, sql string, args ...any) int {
	t.Helper()
	rows, err := s.Pool.Query(t.Context(), `EXPLAIN (ANALYZE, TIMING OFF) `+sql, args...)
	require.NoError(t, err)
	defer rows.Close()
	most := 0
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		for _, found := range rowsRead.FindAllStringSubmatch(line, -1) {
			n, err := strconv.Atoi(found[1])
			require.NoError(t, err)
			most = max(most, n)
		}
	}
	require.NoError(t, rows.Err())
	return most
}

// A series of one day reads the rollups of minutes or hours: the number of rows does not depend on the number of calls.
func TestStore_Series_manyCalls(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	require.NoError(t, s.EnsurePartitions(t.Context()))
	calls := 40_000
	if draw.Whole() {
		calls = 1_000_000
	}
	began := time.Now().UTC().Truncate(24 * time.Hour)
	insertDay(t.Context(), t, s, began, calls)
	until, ctx := began.Add(24*time.Hour), t.Context()
	f := Filter{From: &began, To: &until}
	read := func(of func() ([]Point, error)) ([]Point, time.Duration) {
		started := time.Now()
		points, err := of()
		require.NoError(t, err)
		return points, time.Since(started)
	}
	for step, most := range map[time.Duration]int{5 * time.Minute: 24 * 60, time.Hour: 24} {
		exact, slow := read(func() ([]Point, error) { return s.exactSeries(ctx, "dep_a", f, step, nil) })
		got, fast := read(func() ([]Point, error) { return s.Series(ctx, "dep_a", f, step) })
		sameSeries(t, exact, got)
		rows := planRows(t, s, rollups, "dep_a", "", int32(resolution(step).Seconds()), began, until, nil)
		require.LessOrEqual(t, rows, most, "too many rows are read for steps of %s", step)
		t.Logf("%d calls, steps of %s: %d rows of rollups read in %s, the calls themselves in %s", calls, step, rows, fast, slow)
	}
}

// insertDay inserts the calls of one day, made with 20 tokens, in batches.
func insertDay(ctx context.Context, t *testing.T, s *Store, day time.Time, calls int) {
	t.Helper()
	const batch = 20_000
	for from := 0; from < calls; from += batch {
		_, err := s.Pool.Exec(ctx, `INSERT INTO call (at, request_id, deployment_id, revision_id, revision_number, token_id, token_name,
			replica_id, method, path, status, outcome, stream, usage_source, ttft_ms, duration_ms, request_bytes, response_bytes)
			SELECT $1::timestamptz + make_interval(secs => 86400.0 * i / $4), 'req_' || i, 'dep_a', 'rev', 1, 'tok_' || i % 20, '', '', 'POST', '/v1/x',
				200, 'ok', false, 'none', 1 + i % 977, 2 + i % 7919, 10, 20
			FROM generate_series($2::integer, $3 - 1) AS i`, day, from, min(from+batch, calls), calls)
		require.NoError(t, err)
	}
}

package traffic

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// storedRollup is a row of the table of rollups.
type storedRollup struct {
	Point

	ttft, duration histogram
}

func storedRollups(t *testing.T, s *Store) map[rollupKey]storedRollup {
	t.Helper()
	rows, err := s.Pool.Query(t.Context(), `SELECT deployment_id, token_id, revision_number, width_s, at, calls, ok, client_closed, client_error,
		prompt_tokens, completion_tokens, request_bytes, response_bytes, ttft, duration FROM call_rollup`)
	require.NoError(t, err)
	all := map[rollupKey]storedRollup{}
	var key rollupKey
	var width int
	var at time.Time
	var ttft, duration [][]int32
	r := storedRollup{}
	_, err = pgx.ForEachRow(rows, []any{
		&key.deployment, &key.token, &key.revision, &width, &at, &r.Calls, &r.OK, &r.ClientClosed, &r.ClientError,
		&r.PromptTokens, &r.CompletionTokens, &r.RequestBytes, &r.ResponseBytes, &ttft, &duration,
	}, func() error {
		key.width, key.at = time.Duration(width)*time.Second, at.Unix()
		r.ttft, r.duration = histogram{}, histogram{}
		r.ttft.add(ttft)
		r.duration.add(duration)
		all[key] = r
		return nil
	})
	require.NoError(t, err)
	return all
}

// Replicas of an earlier version insert calls into the whole table, and its trigger adds them to the rollups.
func TestStore_Put_sameRollupsAsTrigger(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	began := time.Now().UTC().Truncate(24 * time.Hour).Add(-2 * time.Hour)
	calls := variedCalls(2000, began, 4*time.Hour)
	for i, c := range calls {
		if i%10 == 0 {
			c.TokenID = ""
		}
	}
	_, err := s.Put(t.Context(), "b1", calls[:1500])
	require.NoError(t, err)
	_, err = s.Put(t.Context(), "b2", calls[1500:])
	require.NoError(t, err)
	added := storedRollups(t, s)
	for _, sql := range []string{`DELETE FROM call_rollup`, `WITH stored AS (DELETE FROM call RETURNING *) INSERT INTO call SELECT * FROM stored`} {
		_, err := s.Pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	require.Equal(t, storedRollups(t, s), added)
	require.Equal(t, 2000, count(t, s, "call"))
}

func TestBucketOf_sameAsDatabase(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	random := rand.New(rand.NewPCG(3, 4))
	times := []float64{0, -1, leastBucket, 1e300, math.Inf(1), math.NaN()}
	for range 5000 {
		times = append(times, math.Exp(40*random.Float64()-10))
	}
	rows, err := s.Pool.Query(t.Context(), `SELECT call_bucket(ms) FROM unnest($1::double precision[]) WITH ORDINALITY AS t (ms, n) ORDER BY n`, times)
	require.NoError(t, err)
	want, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	require.NoError(t, err)
	for i, ms := range times {
		require.Equal(t, want[i], bucketOf(ms), "%g ms", ms)
	}
}

// The database adds up the pairs of a bucket only if a histogram becomes long.
func TestAddCallHistograms(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	pairs := func(n int, count int32) (out [][]int32) {
		for i := range n {
			out = append(out, []int32{int32(i), count})
		}
		return out
	}
	for name, c := range map[string]struct{ a, b, want [][]int32 }{
		"both empty": {nil, nil, nil}, "first empty": {nil, pairs(3, 1), pairs(3, 1)}, "second empty": {pairs(3, 1), nil, pairs(3, 1)},
		"short": {pairs(2, 1), pairs(2, 1), append(pairs(2, 1), pairs(2, 1)...)},
		"long":  {pairs(150, 1), pairs(150, 2), pairs(150, 3)}, "long alone": {pairs(300, 1), nil, pairs(300, 1)},
	} {
		var got [][]int32
		require.NoError(t, s.Pool.QueryRow(t.Context(), `SELECT add_call_histograms($1, $2)`, c.a, c.b).Scan(&got), name)
		require.Equal(t, c.want, got, name)
	}
}

package evaluation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// forget makes the rows of a table those of a version that knew no ranks.
func (b *harness) forget(table string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `UPDATE `+table+` SET rank = DEFAULT, ranked = DEFAULT`)
	require.NoError(b.t, err)
}

// A run that reports while the server is upgraded to a version that knows ranks continues its rounds.
func TestValidationStore_Rounds_continueThoseOlderThanRanks(t *testing.T) {
	t.Parallel()
	b := open(t)
	round := func(rank int32, step int64) groupcommit.Write {
		user := fmt.Sprintf(`"%d of %d"`, step, rank)
		return WriteValidation(&report.Validation{RunID: "run_1", Rank: &rank, Step: step, Total: 1, Samples: []report.Sample{{User: []byte(user)}}})
	}
	seen := func(attempt int32, rank *int32) (out []string) {
		store, from := &ValidationStore{Pool: b.pool}, int64(0)
		rounds, _, err := store.Rounds(t.Context(), "run_1", attempt, rank, all())
		require.NoError(t, err)
		for _, r := range rounds {
			out = append(out, fmt.Sprintf("%d/%d of %d", r.Step, r.Attempt, r.Rank))
		}
		samples, _, err := store.Samples(t.Context(), "run_1", &SampleQuery{From: &from, Attempt: attempt, Rank: rank}, all())
		require.NoError(t, err)
		require.Len(t, samples, len(rounds))
		return out
	}
	require.NoError(t, b.group(1, chunk(1, 0, 1, "1"), chunk(2, 0, 1, "2"), chunk(3, 0, 1, "3")))
	b.forget("validation_round")
	require.Equal(t, []string{"1/1 of 0", "2/1 of 0", "3/1 of 0"}, seen(0, nil))
	require.NoError(t, b.group(1, round(7, 3), round(7, 4), round(9, 5)))
	want := []string{"1/1 of 0", "2/1 of 0", "3/1 of 7", "4/1 of 7"}
	require.Equal(t, want, seen(0, nil), "the lowest rank continues")
	require.Equal(t, want, seen(0, new(int32(7))))
	require.Equal(t, []string{"5/1 of 9"}, seen(0, new(int32(9))))
	require.Empty(t, seen(0, new(int32(0))))
	require.NoError(t, b.group(2, round(7, 2)))
	require.Equal(t, []string{"1/1 of 0", "2/2 of 7"}, seen(0, nil))
	require.Equal(t, []string{"1/1 of 0", "2/1 of 0", "2/2 of 7", "3/1 of 7", "4/1 of 7"}, seen(AllAttempts, nil))
	require.NoError(t, b.group(2, round(0, 6)))
	require.Equal(t, []string{"1/1 of 0", "6/2 of 0"}, seen(0, nil))
	require.NoError(t, b.group(2, round(0, 1)))
	require.Equal(t, []string{"1/2 of 0", "6/2 of 0"}, seen(0, nil))
}

func TestScoreStore_Newest_continuesScoresOlderThanRanks(t *testing.T) {
	t.Parallel()
	b := open(t)
	put := func(rank int32, value float64) {
		b.run.Now = b.run.Now.Add(time.Minute)
		payload := &report.Benchmark{Name: "b", Rank: &rank, Score: &report.Score{Metric: "m", Value: value}}
		require.NoError(t, b.group(1, WriteScore(payload, fmt.Sprintf("score_%v", value))))
	}
	newest := func() float64 {
		found, err := (&ScoreStore{Pool: b.pool}).Newest(t.Context(), "run_1", "b")
		require.NoError(t, err)
		require.Len(t, found, 1)
		return found[0].Value
	}
	put(0, 1)
	put(0, 2)
	b.forget("benchmark_score")
	require.InDelta(t, 2, newest(), 0)
	put(7, 3)
	require.InDelta(t, 3, newest(), 0)
	put(0, 4)
	put(7, 5)
	require.InDelta(t, 4, newest(), 0)
}

func TestWrite_replacesRolloutOlderThanRanks(t *testing.T) {
	t.Parallel()
	b := open(t)
	reward := func(rank int32, value float64) float64 {
		payload := &report.Benchmark{Name: "b", Rank: &rank, Rollouts: []report.Rollout{{Task: "t", Reward: &value}}}
		require.NoError(t, b.group(1, Write(payload)))
		rollouts, err := (&Store{Pool: b.pool}).Rollouts(t.Context(), "run_1")
		require.NoError(t, err)
		require.Len(t, rollouts, 1)
		return *rollouts[0].Reward
	}
	require.InDelta(t, 0.25, reward(0, 0.25), 0)
	b.forget("rollout")
	require.InDelta(t, 0.5, reward(7, 0.5), 0)
	require.InDelta(t, 0.5, reward(9, 0.75), 0)
}

package evaluation

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expected values are the two-sided 95 % values of printed tables of Student's t.
func TestStudentT_matchesTables(t *testing.T) {
	t.Parallel()
	for freedom, want := range map[float64]float64{
		1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 9: 2.262, 10: 2.228, 29: 2.045, 30: 2.042, 60: 2.000, 120: 1.980, 99_999: 1.960,
	} {
		require.InDelta(t, want, studentT(freedom), 0.0005, freedom)
	}
	require.InDelta(t, math.Tan(math.Pi*0.475), studentT(1), 1e-9, "Student's t with one degree of freedom is the Cauchy distribution")
}

func TestMeanOf_workedExample(t *testing.T) {
	t.Parallel()
	// The tasks' means are 2, 4 and 6. Their mean is 4, the deviation 2, and the error 2/sqrt(3). Student's t is
	// 4.302653 for two degrees of freedom.
	m := meanOf([]float64{2, 4, 6})
	require.InDelta(t, 4, m.Value, 0)
	require.InDelta(t, 2/math.Sqrt(3), *m.Stderr, 1e-15)
	require.InDelta(t, 4-4.302652729911275*2/math.Sqrt(3), m.CI.Low, 1e-9)
	require.InDelta(t, 4+4.302652729911275*2/math.Sqrt(3), m.CI.High, 1e-9)
	require.Equal(t, 3, m.Tasks)
	one := meanOf([]float64{0.5})
	require.Nil(t, one.Stderr, "one task has no standard error")
	require.Nil(t, one.CI)
	require.Nil(t, meanOf(nil))
}

func TestChance_workedExamples(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n, c, k int
		want    float64
	}{
		{1, 0, 1, 0},
		{1, 1, 1, 1},
		{4, 1, 1, 0.25},
		{4, 1, 2, 0.5},        // 1 - C(3,2)/C(4,2) = 1 - 3/6
		{5, 2, 3, 0.9},        // 1 - C(3,3)/C(5,3) = 1 - 1/10
		{10, 3, 5, 11.0 / 12}, // 1 - C(7,5)/C(10,5) = 1 - 21/252
		{4, 2, 3, 1},
		{4, 4, 4, 1},
		{4, 0, 4, 0},
	} {
		require.InDelta(t, c.want, chance(c.n, c.c, c.k), 1e-15, c)
	}
}

// TestChance_equalsShareOfDraws draws k of n rollouts in all possible ways. The first c of the n rollouts passed. The
// share of draws that contain a passed rollout must equal the result of chance.
func TestChance_equalsShareOfDraws(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 8; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				draws, hits := 0, 0
				for set := range 1 << n {
					if popcount(set) == k {
						draws++
						if set&(1<<c-1) != 0 { // the first c rollouts passed
							hits++
						}
					}
				}
				require.InDelta(t, float64(hits)/float64(draws), chance(n, c, k), 1e-12, "%d %d %d", n, c, k)
			}
		}
	}
}

func popcount(v int) (n int) {
	for ; v != 0; v &= v - 1 {
		n++
	}
	return n
}

func TestDistribution_singleAndEqualValues(t *testing.T) {
	t.Parallel()
	require.Nil(t, distribution(nil))
	d := distribution([]float64{3})
	require.Nil(t, d.Std)
	require.Equal(t, []float64{3, 3, 3, 3, 3, 3}, []float64{d.Mean, d.Min, d.P10, d.P50, d.P90, d.Max})
	same := distribution([]float64{2, 2, 2})
	require.Equal(t, Bin{Low: 2, High: same.Bins[5].High, Count: 3}, same.Bins[5])
	require.InDelta(t, 1.5, same.Bins[0].Low, 0)
	require.InDelta(t, 2.5, same.Bins[9].High, 0)
}

// reference is the output of testdata/reference.py, which computes the statistics with numpy.
type reference struct {
	Quantiles map[string]float64
	Cases     []struct {
		Values                       []float64
		Mean, Stderr, Low, High, Std float64
		P10, P50, P90                float64
		Edges                        []float64
		Counts                       []int
	}
	Clustered []struct {
		Tasks        [][]float64
		Mean, Stderr float64
	}
	Pass []struct {
		Passed [][]int
		At     map[string]float64
	}
	Bootstrap []struct {
		Deltas          []float64
		Mean, Low, High float64
		Within          float64
	}
}

func load(t *testing.T) *reference {
	t.Helper()
	raw, err := os.ReadFile("testdata/reference.json")
	require.NoError(t, err)
	var r reference
	require.NoError(t, json.Unmarshal(raw, &r))
	require.NotEmpty(t, r.Cases)
	return &r
}

func TestStatistics_matchReference(t *testing.T) {
	t.Parallel()
	r := load(t)
	for freedom, want := range r.Quantiles {
		n, err := strconv.ParseFloat(freedom, 64)
		require.NoError(t, err)
		require.InEpsilon(t, want, studentT(n), 1e-6, freedom)
	}
	for _, c := range r.Cases {
		m, d := meanOf(c.Values), distribution(c.Values)
		for i, pair := range [][2]float64{
			{c.Mean, m.Value},
			{c.Stderr, *m.Stderr},
			{c.Low, m.CI.Low},
			{c.High, m.CI.High},
			{c.Std, *d.Std},
			{c.P10, d.P10},
			{c.P50, d.P50},
			{c.P90, d.P90},
		} {
			require.InDelta(t, pair[0], pair[1], 1e-5*(1+math.Abs(pair[0])), "%d of %v", i, c.Values)
		}
		for i, b := range d.Bins {
			require.Equal(t, c.Counts[i], b.Count, "bin %d of %v", i, c.Values)
			require.InDelta(t, c.Edges[i], b.Low, 1e-9)
			require.InDelta(t, c.Edges[i+1], b.High, 1e-9)
		}
	}
}

func TestRewardOf_errorIsClusteredByTask(t *testing.T) {
	t.Parallel()
	for _, c := range load(t).Clustered {
		var tasks []task
		for _, rewards := range c.Tasks {
			tasks = append(tasks, task{rewards: rewards})
		}
		m := rewardOf(tasks)
		require.InDelta(t, c.Mean, m.Value, 1e-12)
		require.InDelta(t, c.Stderr, *m.Stderr, 1e-12, "rollouts of one task are not independent")
	}
}

func TestPassAt_matchesReference(t *testing.T) {
	t.Parallel()
	for _, c := range load(t).Pass {
		var tasks []task
		for _, flags := range c.Passed {
			one := task{rewards: make([]float64, len(flags))}
			for _, f := range flags {
				one.passed += f
			}
			tasks = append(tasks, one)
		}
		for k, want := range c.At {
			n, err := strconv.Atoi(k)
			require.NoError(t, err)
			require.InDelta(t, want, passAt(tasks, n).Value, 1e-12, k)
		}
	}
}

func TestBootstrap_matchesReference(t *testing.T) {
	t.Parallel()
	for _, c := range load(t).Bootstrap {
		i := bootstrap(c.Deltas, "run_1 run_2")
		require.InDelta(t, c.Low, i.Low, c.Within)
		require.InDelta(t, c.High, i.High, c.Within)
		require.Equal(t, i, bootstrap(c.Deltas, "run_1 run_2"), "the same seed gives the same interval")
		require.NotEqual(t, i, bootstrap(c.Deltas, "run_2 run_1"))
	}
}

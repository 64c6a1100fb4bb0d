package evaluation

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// Comparison compares two runs over the tasks that have scored rollouts in both.
type Comparison struct {
	Tasks              int
	Delta              *float64  // nil if the runs have no scored task in common
	CI                 *Interval // nil for fewer than two tasks
	Wins, Losses, Ties int
}

// Compare pairs the tasks of two runs. Both slices must be sorted by task. The same seed gives the same bootstrap
// samples, so a repeated comparison has the same result.
func Compare(ours, theirs []Rollout, seed string) *Comparison {
	var h Head
	base := map[string]float64{}
	for _, t := range h.tasks(theirs) {
		if t.scored() > 0 {
			base[t.key] = mean(t.rewards)
		}
	}
	c := &Comparison{}
	var deltas []float64
	for _, t := range h.tasks(ours) {
		other, both := base[t.key]
		if !both || t.scored() == 0 {
			continue
		}
		delta := mean(t.rewards) - other
		deltas = append(deltas, delta)
		switch {
		case delta > 0:
			c.Wins++
		case delta < 0:
			c.Losses++
		default:
			c.Ties++
		}
	}
	if c.Tasks = len(deltas); c.Tasks > 0 {
		c.Delta = new(mean(deltas))
	}
	if c.Tasks > 1 {
		c.CI = bootstrap(deltas, seed)
	}
	return c
}

// A bootstrap draws leastDraws to mostDraws samples. Within these bounds, it draws at most mostDrawnOf values in all
// samples together.
const (
	mostDraws   = 10_000
	leastDraws  = 1_000
	mostDrawnOf = 20_000_000
)

// bootstrap draws samples from values with replacement. It returns the percentiles 2.5 and 97.5 of the samples' means.
func bootstrap(values []float64, seed string) *Interval {
	h := fnv.New128a()
	_, _ = h.Write([]byte(seed)) // Write of a hash never fails
	sum := h.Sum(nil)
	draw := rand.New(rand.NewPCG(word(sum[:8]), word(sum[8:])))
	means := make([]float64, max(leastDraws, min(mostDraws, mostDrawnOf/len(values))))
	for i := range means {
		total := 0.0
		for range values {
			total += values[draw.IntN(len(values))]
		}
		means[i] = total / float64(len(values))
	}
	slices.Sort(means)
	return &Interval{Low: quantile(means, 1-confidence), High: quantile(means, confidence)}
}

func word(b []byte) (w uint64) {
	for _, c := range b {
		w = w<<8 | uint64(c)
	}
	return w
}

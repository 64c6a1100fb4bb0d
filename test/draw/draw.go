// Package draw picks the part of a long matrix that a run covers: `make test` runs a part, chosen by a seed that it prints,
// and `make test-long` runs all of it.
package draw

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	seedVariable = "TEST_SEED"
	longVariable = "TEST_LONG"
	defaultSeed  = 1
)

// Whole reports whether matrices run in full.
func Whole() bool { return os.Getenv(longVariable) != "" }

// Picker picks rows of one matrix. Pickers of different tests draw differently from the same seed.
type Picker struct {
	whole bool
	rand  *rand.Rand
}

// Seed returns the run's seed and logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(defaultSeed)
	if given := os.Getenv(seedVariable); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		require.NoError(t, err, seedVariable)
		seed = n
	}
	if !Whole() {
		t.Logf("%s=%d", seedVariable, seed)
	}
	return seed
}

// New returns a picker for the test.
func New(t testing.TB) *Picker {
	t.Helper()
	seed := Seed(t)
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Name()))
	return &Picker{whole: Whole(), rand: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// OneIn returns about one in n of the rows, at least one, in order. If matrices run in full, it returns all rows.
func OneIn[T any](p *Picker, n int, rows []T) []T {
	return Some(p, (len(rows)+n-1)/n, rows)
}

// Some returns n of the rows in order, or all if there are fewer or if matrices run in full.
func Some[T any](p *Picker, n int, rows []T) []T {
	if p.whole || n >= len(rows) {
		return rows
	}
	picked := make([]bool, len(rows))
	for _, i := range p.rand.Perm(len(rows))[:n] {
		picked[i] = true
	}
	out := make([]T, 0, n)
	for i, row := range rows {
		if picked[i] {
			out = append(out, row)
		}
	}
	return out
}

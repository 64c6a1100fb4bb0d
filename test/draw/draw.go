// Package draw selects which rows of a long test matrix are tested. `make test` covers only some rows and prints the
// seed that selects them. `make test-long` covers all rows.
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

// Whole reports whether the run covers all rows of each matrix.
func Whole() bool { return os.Getenv(longVariable) != "" }

// Picker selects rows of one matrix. With the same seed, pickers of different tests select different rows.
type Picker struct {
	whole bool
	rand  *rand.Rand
}

// Seed returns the seed of the run and logs it.
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

// New returns a picker whose selection depends on the seed and on the name of the test.
func New(t testing.TB) *Picker {
	t.Helper()
	seed := Seed(t)
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Name()))
	return &Picker{whole: Whole(), rand: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// OneIn returns about one in n rows, but at least one, in their original order. It returns all rows if Whole returns
// true.
func OneIn[T any](p *Picker, n int, rows []T) []T {
	return Some(p, (len(rows)+n-1)/n, rows)
}

// Some returns n rows in their original order. It returns all rows if there are fewer or if Whole returns true.
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

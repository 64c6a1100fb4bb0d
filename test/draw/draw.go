// Package draw selects which rows of a long test matrix are tested. `make test` covers only some rows, always the same.
// `make test-long` covers all rows, and `make stress` draws other ones with each run.
//
// A row is drawn by a hash of the seed, the test and the row's own name, so that a new row does not redraw the others.
package draw

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"os"
	"slices"
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
	seed  uint64
	test  string
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
func New(t testing.TB) Picker {
	t.Helper()
	return Picker{whole: Whole(), seed: Seed(t), test: t.Name()}
}

// rank returns a number that depends on the seed, the test and the name of a row. The rows of one matrix must have
// different names. Two pickers of one test, with different names of rows, are independent.
func (p Picker) rank(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, p.seed))
	_, _ = h.Write([]byte(p.test + "\x00" + name))
	return mix(h.Sum64())
}

// mix distributes the bits of a hash over the whole number (the finalizer of MurmurHash3). The low bits of FNV of similar
// names are similar.
func mix(n uint64) uint64 {
	n = (n ^ n>>33) * 0xff51afd7ed558ccd
	n = (n ^ n>>33) * 0xc4ceb9fe1a85ec53
	return n ^ n>>33
}

// OneIn returns about one in n rows, but at least one, in their original order. It returns all rows if Whole returns
// true.
func OneIn[T any](p Picker, n int, rows []T, name func(row T) string) []T {
	if p.whole || len(rows) == 0 {
		return rows
	}
	out := make([]T, 0, len(rows)/n+1)
	for _, row := range rows {
		if p.rank(name(row))%uint64(n) == 0 {
			out = append(out, row)
		}
	}
	if len(out) == 0 {
		return Some(p, 1, rows, name)
	}
	return out
}

// Some returns n rows in their original order. It returns all rows if there are fewer or if Whole returns true. A new row
// replaces at most one of the others.
func Some[T any](p Picker, n int, rows []T, name func(row T) string) []T {
	if p.whole || n >= len(rows) {
		return rows
	}
	ranks := make([]uint64, len(rows))
	for i, row := range rows {
		ranks[i] = p.rank(name(row))
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ranks[a], ranks[b]) })
	order = order[:n]
	slices.Sort(order)
	out := make([]T, 0, n)
	for _, i := range order {
		out = append(out, rows[i])
	}
	return out
}

// Itself is the name of a row that is a name.
func Itself(row string) string { return row }

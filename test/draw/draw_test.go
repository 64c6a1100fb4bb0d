package draw

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func numbers(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

func TestSome_repeatableAndInOrder(t *testing.T) {
	t.Setenv(longVariable, "")
	t.Setenv(seedVariable, "7")
	got := Some(New(t), 5, numbers(100), strconv.Itoa)
	require.Len(t, got, 5)
	require.True(t, slices.IsSorted(got))
	require.Equal(t, got, Some(New(t), 5, numbers(100), strconv.Itoa))
	t.Setenv(seedVariable, "8")
	require.NotEqual(t, got, Some(New(t), 5, numbers(100), strconv.Itoa))
	require.Equal(t, numbers(3), Some(New(t), 5, numbers(3), strconv.Itoa))
}

func TestOneIn_newRowKeepsOthers(t *testing.T) {
	t.Setenv(longVariable, "")
	p := New(t)
	before := OneIn(p, 10, numbers(300), strconv.Itoa)
	require.InDelta(t, 30, len(before), 20)
	after := OneIn(p, 10, append([]int{1000}, numbers(300)...), strconv.Itoa)
	require.Equal(t, before, slices.DeleteFunc(after, func(n int) bool { return n == 1000 }))

	replaced := 0
	some := Some(p, 5, numbers(300), strconv.Itoa)
	for _, n := range some {
		if !slices.Contains(Some(p, 5, append(numbers(300), 1000, 1001), strconv.Itoa), n) {
			replaced++
		}
	}
	require.LessOrEqual(t, replaced, 2, "each new row may replace one")
}

func TestOneIn_everyRowDrawnBySomeSeed(t *testing.T) {
	t.Setenv(longVariable, "")
	seen := map[int]bool{}
	for seed := range 1000 {
		t.Setenv(seedVariable, strconv.Itoa(seed))
		got := OneIn(New(t), 10, numbers(25), strconv.Itoa)
		require.NotEmpty(t, got)
		for _, row := range got {
			seen[row] = true
		}
	}
	require.Len(t, seen, 25)
}

func TestOneIn_wholeTakesAll(t *testing.T) {
	t.Setenv(longVariable, "1")
	require.True(t, Whole())
	require.Equal(t, numbers(100), OneIn(New(t), 10, numbers(100), strconv.Itoa))
}

func TestRoutes_newRoutesAlwaysDrawn(t *testing.T) {
	t.Setenv(longVariable, "")
	rows := []string{"GET /api/jobs/{other_name}", "GET /api/not-in-the-baseline/{id}", "TRACE /api/jobs", "* /api/jobs"}
	isNew := NewRoute(t)
	require.Equal(t, []bool{false, true, true, false}, []bool{isNew(rows[0]), isNew(rows[1]), isNew(rows[2]), isNew(rows[3])})
	got := Routes(t, 1_000_000, rows, Itself, func(row string) []string { return []string{row} })
	require.Subset(t, got, rows[1:3])
}

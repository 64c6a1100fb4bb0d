package draw

import (
	"slices"
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

func TestSomeIsRepeatableAndInOrder(t *testing.T) {
	t.Setenv(longVariable, "")
	t.Setenv(seedVariable, "7")
	got := Some(New(t), 5, numbers(100))
	require.Len(t, got, 5)
	require.True(t, slices.IsSorted(got))
	require.Equal(t, got, Some(New(t), 5, numbers(100)))
	t.Setenv(seedVariable, "8")
	require.NotEqual(t, got, Some(New(t), 5, numbers(100)))
	require.Equal(t, numbers(3), Some(New(t), 5, numbers(3)))
}

func TestEveryRowIsDrawnBySomeSeed(t *testing.T) {
	t.Setenv(longVariable, "")
	p, seen := New(t), map[int]bool{}
	for range 1000 {
		got := OneIn(p, 10, numbers(25))
		require.Len(t, got, 3)
		for _, row := range got {
			seen[row] = true
		}
	}
	require.Len(t, seen, 25)
}

func TestLongRunsTakeAll(t *testing.T) {
	t.Setenv(longVariable, "1")
	require.True(t, Whole())
	require.Equal(t, numbers(100), OneIn(New(t), 10, numbers(100)))
}

package id_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/id"
)

func TestParseSample(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]id.Sample{
		"100.1.0.3":                          {Step: 100, Attempt: 1, Index: 3},
		"-5.0.2.0":                           {Step: -5, Chunk: 2},
		"9223372036854775807.1.2147483647.0": {Step: math.MaxInt64, Attempt: 1, Chunk: math.MaxInt32},
	} {
		found, ok := id.ParseSample(text)
		require.True(t, ok, text)
		require.Equal(t, want, found)
		require.Equal(t, text, found.String())
	}
	for _, text := range []string{
		"", "1.2.3", "1.2.3.4.5", "1.2.3.4 ", " 1.2.3.4", "+1.2.3.4", "01.2.3.4", "1.2.3.0x4", "1.2.3.2147483648", "9223372036854775808.1.1.1", "a.b.c.d", "1,2,3,4",
	} {
		found, ok := id.ParseSample(text)
		require.False(t, ok, text)
		require.Zero(t, found, text)
	}
}

func TestSample_Compare(t *testing.T) {
	t.Parallel()
	sorted := []id.Sample{{Step: -1, Attempt: 9}, {}, {Index: 1}, {Chunk: 1}, {Attempt: 1}, {Step: 2}, {Step: 10}}
	require.True(t, slices.IsSortedFunc(sorted, id.Sample.Compare))
	for i, one := range sorted {
		for j, other := range sorted {
			require.Equal(t, i < j, one.Compare(other) < 0)
			require.Equal(t, i == j, one.Compare(other) == 0)
		}
	}
}

package metric

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnpackBlock_reversesPackBlock(t *testing.T) {
	t.Parallel()
	for name, points := range map[string][]entry{
		"none":     {},
		"float32":  {{Step: 1, Value: 0.5, at: 3}, {Step: 2, Value: math.Inf(-1), at: 1}, {Step: 2, Value: math.Copysign(0, -1), at: 9}},
		"float64":  {{Step: -5, Micros: 7, Value: 0.1}, {Step: 100, Micros: 3, Value: 1e-300, at: math.MaxInt32}},
		"extremes": {{Step: math.MinInt64, Micros: math.MaxInt64}, {Step: math.MaxInt64, Micros: math.MinInt64, Value: math.MaxFloat64}},
	} {
		data := packBlock(points)
		got, err := unpackBlock(data, nil)
		require.NoError(t, err, name)
		require.Len(t, got, len(points), name)
		for i := range points {
			require.Equal(t, points[i], got[i], name)
			require.Equal(t, math.Signbit(points[i].Value), math.Signbit(got[i].Value))
		}
		for n := range data {
			_, err := unpackBlock(data[:n], nil)
			require.ErrorIs(t, err, errBatch, "%s cut at %d", name, n)
		}
	}
	nan, err := unpackBlock(packBlock([]entry{{Value: math.NaN()}}), nil)
	require.NoError(t, err)
	require.True(t, math.IsNaN(nan[0].Value))
}

func TestPackBlock_regularPointsAreSmall(t *testing.T) {
	t.Parallel()
	points := make([]entry, blockSize)
	for i := range points {
		points[i] = entry{Step: int64(i), Micros: int64(i) * 1_000_000, Value: float64(float32(math.Sin(float64(i)))), at: uint32(10 * i)}
	}
	require.Less(t, len(packBlock(points)), 5*len(points))
}

func TestUnpackPieces_reversesPackPieces(t *testing.T) {
	t.Parallel()
	points := []entry{{Step: -70, Micros: 9, Value: 3}, {Step: -3, Micros: 5, Value: math.NaN()}, {Step: 0, Micros: 6, Value: -1}, {Step: 500, Micros: 7, Value: 8}}
	want := pieces(points, 4)
	data := packPieces(want)
	got, err := unpackPieces(data, 4, nil)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	all := whole(got)
	require.EqualValues(t, 4, all.Count)
	require.EqualValues(t, 1, all.Odd)
	require.False(t, all.ordered, "the first time is later than the second")
	require.Equal(t, []int64{-70, 500, 0, 500}, []int64{all.First.Step, all.Last.Step, all.Low.Step, all.High.Step})
	require.InDelta(t, 10.0/3, all.Mean(), 1e-12)
	for n := range data {
		_, err := unpackPieces(data[:n], 4, nil)
		require.ErrorIs(t, err, errBatch, "cut at %d", n)
	}
}

func FuzzUnpackBlock(f *testing.F) {
	f.Add(packBlock([]entry{{1, 2, 3, 4}, {2, 3, 4, 5}}))
	f.Add(packPieces(pieces([]entry{{1, 2, 3, 4}, {200, 3, 4, 5}}, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if points, err := unpackBlock(data, nil); err == nil {
			again, err := unpackBlock(packBlock(points), nil)
			require.NoError(t, err)
			require.Len(t, again, len(points))
		}
		_, _ = unpackPieces(data, 1, nil)
		_, _ = unpackRows(data)
	})
}

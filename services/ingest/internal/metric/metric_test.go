package metric

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnpack_reversesPack(t *testing.T) {
	t.Parallel()
	points := []Point{
		{1, 0, 0, 0}, {2, math.MaxInt64, math.Inf(-1), math.MinInt64}, {10_000, math.MinInt64, math.Copysign(0, -1), math.MaxInt64}, {1, 5, 1e-300, 7},
	}
	got, err := Unpack(Pack(points), nil, nil)
	require.NoError(t, err)
	require.Equal(t, points, got)
	nan, err := Unpack(Pack([]Point{{Key: 1, Value: math.NaN()}}), points, nil)
	require.NoError(t, err)
	require.Len(t, nan, 5)
	require.True(t, math.IsNaN(nan[4].Value))
	empty, err := Unpack(Pack(nil), nil, nil)
	require.NoError(t, err)
	require.Empty(t, empty)
}

func TestPack_regularPointsAreSmall(t *testing.T) {
	t.Parallel()
	points := make([]Point, 1000)
	for i := range points {
		points[i] = Point{Key: int32(i % 10), Step: int64(i / 10), Value: float64(i), Micros: 1_800_000_000_000_000 + int64(i)*1000}
	}
	require.Less(t, len(Pack(points)), 13*len(points))
}

func FuzzUnpack(f *testing.F) {
	f.Add(Pack([]Point{{1, 2, 3, 4}, {2, 3, 4, 5}}))
	f.Add([]byte{version, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		points, err := Unpack(data, nil, nil)
		if err != nil {
			return
		}
		again, err := Unpack(Pack(points), nil, nil)
		require.NoError(t, err)
		require.Len(t, again, len(points))
	})
}

func TestUnpack_skipsRowsWithoutWantedKeys(t *testing.T) {
	t.Parallel()
	data := Pack([]Point{{1, 2, 3, 4}, {2, 3, 4, 5}})
	for key, want := range map[int32]int{1: 2, 2: 2, 3: 0} {
		got, err := Unpack(data, nil, func(k int32) bool { return k == key })
		require.NoError(t, err)
		require.Len(t, got, want, "key %d", key)
	}
	_, err := Unpack(data[:3], nil, func(int32) bool { return false })
	require.ErrorIs(t, err, errBatch, "a row with incomplete keys is corrupt")
}

func TestView_seen_newerAttemptHidesOlder(t *testing.T) {
	t.Parallel()
	var r reports
	for step := range int64(10) {
		r.add(1, Point{Step: step, Value: 1})
	}
	r.add(2, Point{Step: 6, Value: 2})
	r.add(2, Point{Step: 5, Value: 2})
	r.add(3, Point{Step: 7, Value: 3})
	r.add(3, Point{Step: 7, Value: 3.5})
	var got []float64
	for _, p := range r.view(100).seen(100) {
		got = append(got, p.Value)
	}
	require.Equal(t, []float64{1, 1, 1, 1, 1, 2, 2, 3.5}, got)
}

func TestThin_keepsExtremes(t *testing.T) {
	t.Parallel()
	points := make([]Seen, 10_000)
	for i := range points {
		points[i] = Seen{Step: int64(i), Value: math.Sin(float64(i))}
	}
	points[4321].Value, points[7000].Value, points[8000].Value = 99, -99, math.NaN()
	got := Thin(slices.Clone(points), 100)
	require.LessOrEqual(t, len(got), 100)
	require.Equal(t, points[0], got[0])
	require.Equal(t, points[9999], got[len(got)-1])
	require.Equal(t, uint64(len(points)), stands(got), "removed points are counted")
	found := map[int64]bool{}
	for i, p := range got {
		found[p.Step] = true
		require.True(t, i == 0 || got[i-1].Step < p.Step, "in order, without duplicates")
	}
	require.True(t, found[4321] && found[7000] && found[8000])
	require.Len(t, Thin(points[:50], 100), 50)
}

func TestPlot_add_outsideOfMeasuredRange(t *testing.T) {
	t.Parallel()
	p := newPlot(Series{Key: "a"}, All(Steps), 5, 1)
	p.measure(Seen{Step: 3})
	p.measure(Seen{Step: 90})
	for step := range int64(100) {
		p.add(Seen{Step: step})
	}
	require.EqualValues(t, 100, p.done().Count)
}

func TestStats_Mean_staysFinite(t *testing.T) {
	t.Parallel()
	var s Stats
	for i := range 1000 {
		s.add(Seen{Step: int64(i), Value: math.MaxFloat64}, Steps)
	}
	require.Equal(t, math.MaxFloat64, s.Mean()) //nolint:testifylint // the mean of equal values is exact
}

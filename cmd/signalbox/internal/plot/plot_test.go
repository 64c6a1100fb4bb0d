package plot

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func at(x, y float64) Point { return Point{X: x, Low: y, High: y} }

func drawn(t *testing.T, c Chart) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, c.Write(&out))
	return out.String()
}

func TestChart_Write(t *testing.T) {
	t.Parallel()
	got := drawn(t, Chart{Title: "loss", Note: "  2 at step 4", Points: []Point{at(0, 4), at(2, 0), at(4, 2)}, Columns: 10, Rows: 4})
	require.Equal(t, `loss  2 at step 4
4 │⠱⡀
  │ ⠘⢄      ⢀
  │  ⠈⢢   ⣀⠔⠁
0 │    ⠱⡠⠊
  └──────────
   0        4
`, got)
	require.Equal(t, `a
 3 |  ##
   | ##
-1 |##
   +----
    0  1
`, drawn(t, Chart{Title: "a", Points: []Point{at(0, -1), at(1, 3)}, Columns: 4, Rows: 3, ASCII: true}))
}

func TestChart_Write_unusual(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	for name, tc := range map[string]struct {
		chart Chart
		want  string
	}{
		"no points":           {Chart{}, "x: no values to draw\n"},
		"nothing finite":      {Chart{Points: []Point{at(0, nan), at(1, inf), at(2, -inf), at(nan, 1), at(inf, 1)}}, "x  (5 not drawn): no values to draw\n"},
		"one point":           {Chart{Points: []Point{at(7, 0.5)}, Columns: 4, Rows: 3}, "x\n    │\n0.5 │  ⠂\n    │\n    └────\n     7\n"},
		"constant":            {Chart{Points: []Point{at(0, 3), at(9, 3)}, Columns: 4, Rows: 1}, "x\n3 │⠒⠒⠒⠒\n  └────\n   0  9\n"},
		"width of one":        {Chart{Points: []Point{at(0, 1), at(1, 2)}, Columns: 1, Rows: 1}, "x\n2 │⡜\n  └─\n   0 1\n"},
		"no size":             {Chart{Points: []Point{at(0, 1), at(1, 2)}, Columns: -3}, "x\n2 │⡜\n  └─\n   0 1\n"},
		"not finite between":  {Chart{Points: []Point{at(0, 1), at(1, nan), at(2, 1)}, Columns: 2, Rows: 1}, "x  (1 not drawn)\n1 │⠒⠒\n  └──\n   0 2\n"},
		"range in a column":   {Chart{Points: []Point{{0, -1, 1}}, Columns: 1, Rows: 2}, "x\n 1 │⢸\n-1 │⢸\n   └─\n    0\n"},
		"low and high differ": {Chart{Points: []Point{{0, 1, -1}}, Columns: 1, Rows: 2}, "x\n 1 │⢸\n-1 │⢸\n   └─\n    0\n"},
		"logarithm":           {Chart{Points: []Point{at(0, 0), at(1, -5), at(2, 0.01), at(3, 100), {4, -1, 1}}, Columns: 3, Rows: 2, Log: true}, "x  (2 not drawn)\n 100 │ ⡜⢆\n0.01 │⡜\n     └───\n      2 4\n"},
		"logarithm of zeros":  {Chart{Points: []Point{at(0, 0), at(1, 0)}, Log: true}, "x  (2 not drawn): no values to draw\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.chart.Title = "x"
			require.Equal(t, tc.want, drawn(t, tc.chart))
		})
	}
	hostile := drawn(t, Chart{Title: "a\x1b[2J", Note: "\x1b]0;x\a", Points: []Point{at(0, 1)}})
	require.NotContains(t, hostile, "\x1b")
}

// The extremes of float64 have no finite difference.
func TestChart_Write_extremes(t *testing.T) {
	t.Parallel()
	got := drawn(t, Chart{Points: []Point{at(-math.MaxFloat64, -math.MaxFloat64), at(0, 0), at(math.MaxFloat64, math.MaxFloat64)}, Columns: 3, Rows: 3})
	require.Contains(t, got, "│  ⡜\n             │ ⡸\n-1.7977e+308 │⡰⠁\n", "the line goes from one corner to the other")
	require.Contains(t, got, "1.7977e+308")
	got = drawn(t, Chart{Points: []Point{at(0, math.SmallestNonzeroFloat64), at(1, math.MaxFloat64)}, Columns: 8, Rows: 2, Log: true})
	require.Contains(t, got, "4.9407e-324")
	for line := range strings.SplitSeq(got, "\n") {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 8+2+len("1.7977e+308"))
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		low, high   float64
		left, right string
	}{
		{0, 1000000, "0", "1000000"},
		{0.123456789, 0.5, "0.12346", "0.5"},
		{1.0000001, 1.0000002, "1.0000001", "1.0000002"},
		{2.5, 2.5, "2.5", "2.5"},
		{1, math.Nextafter(1, 2), "1", "1.0000000000000002"},
	} {
		left, right := Numbers(tc.low, tc.high)
		require.Equal(t, []string{tc.left, tc.right}, []string{left, right})
	}
}

func TestChart_Write_times(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("x", 2*3600)
	from := time.Date(2026, 1, 31, 20, 15, 30, 250e6, time.UTC)
	for span, want := range map[time.Duration][2]string{
		time.Hour: {"22:15:30", "23:15:30"}, 3 * time.Hour: {"2026-01-31 22:15", "2026-02-01 01:15"}, 500 * time.Millisecond: {"22:15:30.250", "22:15:30.750"},
	} {
		low, high := float64(from.UnixMicro())/1e6, float64(from.Add(span).UnixMicro())/1e6
		got := drawn(t, Chart{Points: []Point{at(low, 1), at(high, 2)}, Columns: 40, Rows: 2, Labels: Times(zone)})
		lines := strings.Split(strings.TrimSpace(got), "\n")
		require.Equal(t, want[0]+strings.Repeat(" ", 40-len(want[0])-len(want[1]))+want[1], strings.TrimSpace(lines[len(lines)-1]))
	}
}

// Package plot owns charts of metrics in a terminal. A curve is drawn with the dots of Braille characters, two columns
// and four rows of dots in each, so that a chart of 80 characters shows 160 values. Each column of dots shows the range
// from the lowest to the highest value in it, so that a chart hides no extreme value.
package plot

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

// Point is a part of a curve: the values between two positions on the x axis. Low is the lowest and High the highest.
type Point struct{ X, Low, High float64 }

// Chart is a chart of one series.
type Chart struct {
	Title string
	// Note is printed behind the title.
	Note   string
	Points []Point
	// Columns and Rows are the size of the drawing, in characters, without the labels.
	Columns, Rows int
	// Log selects a logarithmic y axis. Values that are not positive are left out.
	Log bool
	// Labels returns the texts for the two ends of the x axis; Numbers if it is nil.
	Labels func(low, high float64) (left, right string)
	// ASCII draws with # instead of Braille, and with the lines of ASCII.
	ASCII bool
}

const (
	dotsX, dotsY = 2, 4
	braille      = 0x2800
)

// bit returns the dot of a Braille character at a column and a row.
func bit(x, y int) rune {
	return [dotsY][dotsX]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}[y][x]
}

// scale maps values to dots.
type scale struct {
	low, high float64
	dots      int
	log       bool
}

func (s scale) value(v float64) float64 {
	if s.log {
		return math.Log10(v)
	}
	return v / 2
}

// dot returns the dot of a value, from 0 to dots-1.
func (s scale) dot(v float64) int {
	low, high := s.value(s.low), s.value(s.high)
	if high <= low {
		return s.dots / 2
	}
	return min(max(int(math.Round((s.value(v)-low)/(high-low)*float64(s.dots-1))), 0), s.dots-1)
}

// Write draws the chart.
func (c Chart) Write(w io.Writer) error {
	points, omitted := c.drawable()
	title := output.Printable(c.Title + c.Note)
	if omitted > 0 {
		title += fmt.Sprintf("  (%d not drawn)", omitted)
	}
	if len(points) == 0 {
		_, err := fmt.Fprintf(w, "%s: no values to draw\n", title)
		return err
	}
	columns, rows := max(c.Columns, 1), max(c.Rows, 1)
	x, y := c.scales(points, columns, rows)
	labels, margin := y.labels(rows)
	side, corner, floor := "│", "└", "─"
	if c.ASCII {
		side, corner, floor = "|", "+", "-"
	}
	var b strings.Builder
	b.WriteString(title + "\n")
	for i, row := range c.draw(points, x, y, columns, rows) {
		fmt.Fprintf(&b, "%*s %s%s\n", margin, labels[i], side, strings.TrimRight(string(row), " "))
	}
	fmt.Fprintf(&b, "%*s %s%s\n", margin, "", corner, strings.Repeat(floor, columns))
	fmt.Fprintf(&b, "%*s  %s\n", margin, "", c.ends(x, columns))
	_, err := io.WriteString(w, b.String())
	return err
}

// ends returns the labels of the x axis. The second one ends with the axis if both fit.
func (c Chart) ends(x scale, columns int) string {
	label := c.Labels
	if label == nil {
		label = Numbers
	}
	left, right := label(x.low, x.high)
	if x.low == x.high {
		return left
	}
	return left + strings.Repeat(" ", max(columns-len([]rune(left))-len([]rune(right)), 1)) + right
}

// labels returns the labels of the rows, and the width of the longest one.
func (s scale) labels(rows int) (labels []string, margin int) {
	labels = make([]string, rows)
	bottom, top := Numbers(s.low, s.high)
	if s.low == s.high {
		row := rows - 1 - s.dot(s.low)/dotsY
		labels[row] = top
		return labels, len(top)
	}
	labels[rows-1], labels[0] = bottom, top
	return labels, max(len(top), len(bottom))
}

// drawable returns the points that can be drawn, and the number of those that cannot.
func (c Chart) drawable() (out []Point, omitted int) {
	for _, p := range c.Points {
		p.Low, p.High = min(p.Low, p.High), max(p.Low, p.High)
		if c.Log && p.Low <= 0 {
			p.Low = p.High
		}
		if !finite(p.X) || !finite(p.Low) || !finite(p.High) || c.Log && p.High <= 0 {
			omitted++
			continue
		}
		out = append(out, p)
	}
	return out, omitted
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func (c Chart) scales(points []Point, columns, rows int) (x, y scale) {
	x = scale{low: points[0].X, high: points[0].X, dots: columns * dotsX}
	y = scale{low: points[0].Low, high: points[0].High, dots: rows * dotsY, log: c.Log}
	for _, p := range points {
		x.low, x.high = min(x.low, p.X), max(x.high, p.X)
		y.low, y.high = min(y.low, p.Low), max(y.high, p.High)
	}
	return x, y
}

// draw returns the characters of the chart, row by row from the top.
func (c Chart) draw(points []Point, x, y scale, columns, rows int) [][]rune {
	grid := make([][]rune, rows)
	for i := range grid {
		grid[i] = make([]rune, columns)
	}
	set := func(column, row int) {
		row = y.dots - 1 - row
		grid[row/dotsY][column/dotsX] |= bit(column%dotsX, row%dotsY)
	}
	for i, p := range points {
		column := x.dot(p.X)
		for row := y.dot(p.Low); row <= y.dot(p.High); row++ {
			set(column, row)
		}
		if i > 0 {
			line(x.dot(points[i-1].X), y.dot(middle(points[i-1])), column, y.dot(middle(p)), set)
		}
	}
	for _, row := range grid {
		for i, dots := range row {
			switch {
			case dots == 0:
				row[i] = ' '
			case c.ASCII:
				row[i] = '#'
			default:
				row[i] = braille + dots
			}
		}
	}
	return grid
}

func middle(p Point) float64 { return p.Low/2 + p.High/2 }

// line calls set with the dots of a line between two dots.
func line(x0, y0, x1, y1 int, set func(x, y int)) {
	steps := max(x1-x0, x0-x1, y1-y0, y0-y1)
	for i := range steps {
		f := float64(i) / float64(steps)
		set(int(math.Round(float64(x0)+f*float64(x1-x0))), int(math.Round(float64(y0)+f*float64(y1-y0))))
	}
}

package auditview

import (
	"context"

	"github.com/signalbox-dev/signalbox/platform/audit"
)

// merge walks through the audit rows of all services in one order, newest first. The walk reads only the positions of
// the rows; the method read reads the rows themselves.
type merge struct {
	trail   *Trail
	filter  audit.Filter
	after   audit.Point // the position after which the walk begins
	want    int         // the maximum value of walked
	walked  int         // number of positions passed
	cursors []*cursor
}

// cursor is the state of a merge for one service.
type cursor struct {
	name   string
	source Source
	ahead  []audit.Point // positions that have been read but not passed yet
	whole  bool          // true if ahead contains all remaining positions
	last   audit.Point   // the last position passed
	taken  int           // number of positions passed
}

// part describes the rows that one service contributes to a page: the rows after a position.
type part struct {
	cursor *cursor
	after  audit.Point
	before int // the value of cursor.taken at the beginning of the page
}

// open reads the first positions of all services in parallel.
func (m *merge) open(ctx context.Context) error {
	m.cursors = make([]*cursor, len(m.trail.Names))
	return m.trail.each(ctx, func(ctx context.Context, i int, s Source) error {
		m.cursors[i] = &cursor{name: m.trail.Names[i], source: s, last: m.after}
		return m.fill(ctx, m.cursors[i])
	})
}

// fill reads the next positions of a service: at most maxPoints, and at most as many as the merge may still pass.
func (m *merge) fill(ctx context.Context, c *cursor) error {
	limit := min(m.want-m.walked, maxPoints)
	points, err := c.source.Points(ctx, m.filter, c.last, limit)
	if err != nil {
		return err
	}
	c.ahead, c.whole = points, len(points) < limit
	return nil
}

// next returns the cursor whose next position comes first in the order, or nil if no position is left.
func (m *merge) next(ctx context.Context) (*cursor, error) {
	var first *cursor
	for _, c := range m.cursors {
		if len(c.ahead) == 0 && !c.whole {
			if err := m.fill(ctx, c); err != nil {
				return nil, away(c.name, err)
			}
		}
		if len(c.ahead) > 0 && (first == nil || c.ahead[0].Compare(first.ahead[0]) < 0) {
			first = c
		}
	}
	return first, nil
}

// walk passes n positions, or fewer if no more are left, and returns how many it passed.
func (m *merge) walk(ctx context.Context, n int) (int, error) {
	for walked := range n {
		c, err := m.next(ctx)
		if err != nil || c == nil {
			return walked, err
		}
		c.last, c.ahead = c.ahead[0], c.ahead[1:]
		c.taken++
		m.walked++
	}
	return n, nil
}

// parts returns a part for each service. The parts begin at the current position of the walk.
func (m *merge) parts() []part {
	all := make([]part, len(m.cursors))
	for i, c := range m.cursors {
		all[i] = part{cursor: c, after: c.last, before: c.taken}
	}
	return all
}

// read reads the rows from the beginning of each part to the current position of the walk.
func (m *merge) read(ctx context.Context, parts []part) ([]Row, error) {
	found := make([][]audit.Row, len(parts))
	err := m.trail.each(ctx, func(ctx context.Context, i int, s Source) (err error) {
		if n := parts[i].cursor.taken - parts[i].before; n > 0 {
			found[i], err = s.Rows(ctx, m.filter, parts[i].after, n)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	rows := []Row{}
	for i, list := range found {
		for _, r := range list {
			rows = append(rows, Row{Row: r, Service: m.trail.Names[i]})
		}
	}
	sorted(rows)
	shorten(rows)
	return rows, nil
}

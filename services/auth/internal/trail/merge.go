package trail

import (
	"context"

	"github.com/signalbox-dev/signalbox/platform/audit"
)

// merge walks over the places of all services' rows in one order.
type merge struct {
	trail   *Trail
	filter  audit.Filter
	want    int // places that are walked over at most
	walked  int
	cursors []*cursor
}

// cursor is where the walk stands in one service.
type cursor struct {
	name   string
	source Source
	ahead  []audit.Point // read and not walked over yet
	whole  bool          // nothing follows what is ahead
	last   audit.Point   // walked over last
	taken  int           // walked over so far
}

// part is what a page takes of a service: so many rows after a place.
type part struct {
	cursor *cursor
	after  audit.Point
	before int // taken when the part began
}

// open reads the first places of all services at once.
func (m *merge) open(ctx context.Context) error {
	m.cursors = make([]*cursor, len(m.trail.Names))
	return m.trail.each(ctx, func(ctx context.Context, i int, s Source) error {
		m.cursors[i] = &cursor{name: m.trail.Names[i], source: s}
		return m.fill(ctx, m.cursors[i])
	})
}

// fill reads the next places of a service, as many as the walk can still need.
func (m *merge) fill(ctx context.Context, c *cursor) error {
	limit := min(m.want-m.walked, maxPoints)
	points, err := c.source.Points(ctx, m.filter, c.last, limit)
	if err != nil {
		return err
	}
	c.ahead, c.whole = points, len(points) < limit
	return nil
}

// next is the service whose place comes next, nil at the end.
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

// walk goes over n places, or as many as there are.
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

// parts begin where the walk stands.
func (m *merge) parts() []part {
	all := make([]part, len(m.cursors))
	for i, c := range m.cursors {
		all[i] = part{cursor: c, after: c.last, before: c.taken}
	}
	return all
}

// read reads the rows between the parts' beginnings and where the walk stands now.
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

// Package trail shows the audit of the whole installation: the rows of every service in one order, and what
// a walk over every service's chain finds. It promises that nothing is left out in silence: where a service
// does not answer, there is no list and no report, and the answer names the service.
package trail

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/page"
)

// Source is the audit of one service.
type Source interface {
	// Points answers where the next rows after a place stand, newest first; fewer than limit are all.
	Points(ctx context.Context, f audit.Filter, after audit.Point, limit int) ([]audit.Point, error)
	// Rows answers the next rows after a place, newest first.
	Rows(ctx context.Context, f audit.Filter, after audit.Point, limit int) ([]audit.Row, error)
	// Verify walks the chain.
	Verify(ctx context.Context) (Chain, error)
}

// Chain is what a walk over a service's chain found.
type Chain struct {
	Service           string
	OK                bool
	Rows, Checkpoints int64
	Fault             string // empty where nothing is wrong
}

// Row is a row with the service whose schema holds it.
type Row struct {
	audit.Row

	Service string
}

// Trail is the audit of all services.
type Trail struct {
	// Names are the services in the order of reports, Sources their audits.
	Names   []string
	Sources map[string]Source
}

// maxPoints is how many places are asked for at once: what a deep page skips costs some 50 bytes a row.
const maxPoints = 10_000

// maxStates is how many bytes of states a page shows.
const maxStates = 2 << 20

// List answers a page of the merged rows, newest first. It walks over places alone and reads whole only
// the rows of the page.
func (t *Trail) List(ctx context.Context, f audit.Filter, p page.Page) (rows []Row, more bool, err error) {
	m := &merge{trail: t, filter: f, want: p.Offset + p.Ask()}
	if err := m.open(ctx); err != nil {
		return nil, false, err
	}
	if _, err := m.walk(ctx, p.Offset); err != nil {
		return nil, false, err
	}
	parts := m.parts()
	shown, err := m.walk(ctx, p.Limit)
	if err != nil {
		return nil, false, err
	}
	if shown < p.Limit {
		more = false
	} else if next, err := m.next(ctx); err != nil {
		return nil, false, err
	} else {
		more = next != nil
	}
	rows, err = m.read(ctx, parts)
	return rows, more, err
}

// Verify walks the chains of all services.
func (t *Trail) Verify(ctx context.Context) ([]Chain, error) {
	chains := make([]Chain, len(t.Names))
	err := t.each(ctx, func(ctx context.Context, i int, s Source) (err error) {
		chains[i], err = s.Verify(ctx)
		chains[i].Service = t.Names[i]
		return err
	})
	return chains, err
}

// each asks all services at once; the first that fails is named.
func (t *Trail) each(ctx context.Context, do func(ctx context.Context, i int, s Source) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range t.Names {
		group.Go(func() error { return away(name, do(ctx, i, t.Sources[name])) })
	}
	return group.Wait()
}

// CodeAway marks an audit that cannot be shown because a service does not answer.
const CodeAway = "audit_incomplete"

// away names the service whose audit cannot be read: 503 where it is away, 502 where it failed.
func away(service string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case fault.Is(err, fault.Unavailable):
		return fault.New(fault.Unavailable, CodeAway, "the audit is incomplete: %s does not answer", service).Wrap(err)
	default:
		return fault.New(fault.Dependency, CodeAway, "the audit is incomplete: %s failed to read its part", service).Wrap(err)
	}
}

// shorten keeps a page of rows within what an answer may hold.
func shorten(rows []Row) {
	plain := make([]audit.Row, len(rows))
	for i := range rows {
		plain[i] = rows[i].Row
	}
	audit.Shorten(plain, maxStates)
	for i := range rows {
		rows[i].Row = plain[i]
	}
}

// sorted puts rows into the order of lists; rows of one moment and id cannot be, but services break a tie.
func sorted(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int { return a.Point().Compare(b.Point()) })
}

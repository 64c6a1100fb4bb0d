// Package auditview shows the audit of the whole installation: the rows of all services in one order, and the result of
// verifying the chain of each service. It promises that nothing is omitted silently: if a service does not respond,
// there is no list and no report, and the error names the service.
package auditview

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// Source is the audit of one service.
type Source interface {
	// Points returns the positions of the next rows after a position, newest first. Fewer than limit means the end.
	Points(ctx context.Context, f audit.Filter, after audit.Point, limit int) ([]audit.Point, error)
	// Rows returns the next rows after a position, newest first.
	Rows(ctx context.Context, f audit.Filter, after audit.Point, limit int) ([]audit.Row, error)
	// Verify verifies the chain.
	Verify(ctx context.Context) (Chain, error)
}

// Chain is the result of verifying a service's chain.
type Chain struct {
	Service           string
	OK                bool
	Rows, Checkpoints int64
	Fault             string // empty if the chain is intact
}

// Row is an audit row and the service that stores it.
type Row struct {
	audit.Row

	Service string
}

// Trail is the audit of all services.
type Trail struct {
	// Names are the services in the order of reports; Sources are their audits by name.
	Names   []string
	Sources map[string]Source
}

// maxPoints is the maximum number of positions per request. Rows that a deep page skips cost about 50 bytes each.
const maxPoints = 10_000

// maxStates is the maximum size of the states in a page, in bytes.
const maxStates = 2 << 20

// List returns a page of the merged rows, newest first. It walks over positions and reads only the rows of the page in
// full.
func (t *Trail) List(ctx context.Context, f audit.Filter, p request.Page) (rows []Row, more bool, err error) {
	m := &merge{trail: t, filter: f, want: p.Offset + p.FetchLimit()}
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

// Verify verifies the chains of all services.
func (t *Trail) Verify(ctx context.Context) ([]Chain, error) {
	chains := make([]Chain, len(t.Names))
	err := t.each(ctx, func(ctx context.Context, i int, s Source) (err error) {
		chains[i], err = s.Verify(ctx)
		chains[i].Service = t.Names[i]
		return err
	})
	return chains, err
}

// each calls all services in parallel. The error names the first one that fails.
func (t *Trail) each(ctx context.Context, do func(ctx context.Context, i int, s Source) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range t.Names {
		group.Go(func() error { return away(name, do(ctx, i, t.Sources[name])) })
	}
	return group.Wait()
}

// CodeIncomplete is the code if the audit cannot be shown because a service does not respond or fails.
const CodeIncomplete = "audit_incomplete"

// away returns the error for a service whose audit cannot be read: 503 if it is unavailable, 502 if it failed.
func away(service string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case fault.Is(err, fault.Unavailable):
		return fault.New(fault.Unavailable, CodeIncomplete, "the audit is incomplete: %s does not respond", service).Wrap(err)
	default:
		return fault.New(fault.Dependency, CodeIncomplete, "the audit is incomplete: %s failed to read its part", service).Wrap(err)
	}
}

// shorten limits the states of a page of rows to maxStates.
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

// sorted sorts rows into list order. The order is total: ids are unique, so rows of the same moment are ordered by id.
func sorted(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int { return a.Point().Compare(b.Point()) })
}

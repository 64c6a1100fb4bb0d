// Package auditview shows the audit of the whole installation: the rows of all services in one order, and the result
// of verifying each service's hash chain. It never omits rows silently: if a service does not respond, List and
// Verify fail with an error that names the service.
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

// Source reads the audit of one service.
type Source interface {
	// Points returns the positions of the next rows after a position, newest first. It returns fewer than limit only
	// if no more rows exist.
	Points(ctx context.Context, f audit.Filter, after audit.Point, limit int) ([]audit.Point, error)
	// Rows returns the next rows after a position, newest first, at most limit.
	Rows(ctx context.Context, f audit.Filter, after audit.Point, limit int) ([]audit.Row, error)
	// Verify verifies the hash chain of the rows.
	Verify(ctx context.Context) (Chain, error)
}

// Chain is the result of verifying the hash chain of a service.
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

// Trail reads the audit of all services.
type Trail struct {
	// Names are the names of the services, in the order in which Verify lists them. Sources contains the source of each
	// service, by name.
	Names   []string
	Sources map[string]Source
}

// maxPoints is the maximum number of positions that one request returns. To show a page, List reads the position, about
// 50 bytes, of every row before the page.
const maxPoints = 10_000

// maxStates limits the total size, in bytes, of the fields Before and After in the rows of a page.
const maxStates = 2 << 20

// List returns a page of the merged rows that come after a position, newest first. It finds the page by the positions of the rows, and reads
// only the rows of the page in full.
func (t *Trail) List(ctx context.Context, f audit.Filter, after audit.Point, p request.Page) (rows []Row, more bool, err error) {
	m := &merge{trail: t, filter: f, after: after, want: p.Offset + p.FetchLimit()}
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

// each calls the function fn for all services in parallel. It returns the error of the first service that fails. The
// error names the service, unless the request was canceled.
func (t *Trail) each(ctx context.Context, fn func(ctx context.Context, i int, s Source) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range t.Names {
		group.Go(func() error { return away(name, fn(ctx, i, t.Sources[name])) })
	}
	return group.Wait()
}

// CodeIncomplete is the code of the error for a service that does not respond, or fails, while its audit is read.
const CodeIncomplete = "audit_incomplete"

// away returns the error of a service whose audit cannot be read: 503 if the service is unavailable, 502 if it
// failed. It returns a canceled request's error unchanged.
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

// shorten limits the fields Before and After of the rows to about maxStates bytes in total.
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

// sorted sorts rows into the order of lists: newest first, and by descending id if the times are equal.
func sorted(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int { return a.Point().Compare(b.Point()) })
}

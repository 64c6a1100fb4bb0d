package run

import (
	"context"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Reader is the user who reads or, if shared is set, the run whose data is read through share links. The charts and the
// searches of a user count as those of two readers.
type Reader struct {
	name     string
	shared   bool
	searches bool
}

// CallerReader returns the reader for a call that reads metrics and has the given context.
func CallerReader(ctx context.Context) Reader { return Reader{name: authn.CallerOf(ctx).Subject} }

// CallerSearcher returns the reader for a call that searches logs and has the given context.
func CallerSearcher(ctx context.Context) Reader {
	return Reader{name: authn.CallerOf(ctx).Subject, searches: true}
}

// ShareReader returns the reader that stands for all share links to a run.
func ShareReader(runID string) Reader { return Reader{name: runID, shared: true} }

// ReportReader returns the reader that stands for the reports of a run.
func ReportReader(runID string) Reader { return Reader{name: runID} }

// busy returns the error for a call of the reader that a gate refuses.
func (r Reader) busy() error {
	if r.searches {
		return fault.New(fault.Unavailable, "searches_busy", "too many logs are being searched; try again later")
	}
	return fault.New(fault.Unavailable, "charts_busy", "too many metrics are being read; try again later")
}

// Package run owns ingest's row of each run, its hyperparameters and the signals to its training. The row holds the
// owner as reported by the jobs service, the positions of the streams, and whether the run is closed. The
// hyperparameters have a history of replaced values. A signal requires the training to save a checkpoint, to pause or
// to stop.
//
// The package promises that only callers with access can read a run, and that a hidden run and an absent run cause the
// same error. It bounds the requests that wait for a signal, per run and per server, and the calls that read much data,
// in total and per reader. If the stream of signals from the jobs service is lost, signals are late, but none is lost.
package run

import (
	"context"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Owner identifies the owner and the project of a run.
type Owner struct {
	RunID, JobID       string
	OwnerID            string
	ProjectID, Project string
	Visibility         string
	VisibilityVersion  int64 // version of the project's visibility
	// Goals are those of the run's recipe. An earlier version of the jobs service does not report them.
	Goals Goals
}

// Goals state by the key of a metric which of its values are better: "minimize" or "maximize". They never change.
type Goals map[string]string

// Progress holds the last positions of a run's streams, the owner of the run and its end, read together.
type Progress struct {
	Owner             Owner
	Attempt           int32 // the newest that has reported
	LineSeq, BatchSeq int64
	// Resumed is the number of attempts that hide points of older attempts.
	Resumed           int64
	ClosedAt, EndedAt *time.Time
	State             string
}

// Position is a number that grows whenever the metrics that readers see may have changed.
func (p *Progress) Position() int64 { return p.BatchSeq + p.Resumed }

// Rows reads and writes the rows of runs.
type Rows interface {
	// Find returns the owner of a run, given the id of the run or of its job. It returns nil if the run has no row.
	Find(ctx context.Context, id string) (*Owner, error)
	Upsert(ctx context.Context, o *Owner) error
}

// Runs finds runs for readers.
type Runs struct {
	Rows Rows
	// FetchOwner fetches the owner of a run from the jobs service, given the id of the run or of its job. If readable is
	// set, it returns an Absent fault for a run that the caller may not read.
	FetchOwner func(ctx context.Context, id string, readable bool) (*Owner, error)
}

// Readable returns the id of a run, given the id of the run or of its job. A name that is not such an id is an Invalid
// fault. Hidden and absent runs cause the same Absent fault after the same work: first ingest looks for a row that the
// caller may read, then the jobs service does. The time of a response therefore does not show that a hidden run exists.
func (r *Runs) Readable(ctx context.Context, name string) (string, error) {
	thing, prefix := kind(name)
	if err := id.Check(prefix, name); err != nil {
		return "", fault.InvalidFields(fault.At(fault.TypeStringPattern, "Input should be the id of a run or a job", "id"))
	}
	o, err := r.Rows.Find(ctx, name)
	if err != nil {
		return "", err
	}
	if o != nil && o.Readable(ctx, name) == nil {
		return o.RunID, nil
	}
	o, err = r.FetchOwner(ctx, name, true)
	if fault.Is(err, fault.Absent) {
		return "", fault.Absentf(thing, name).Wrap(err)
	}
	if err != nil {
		return "", err
	}
	if err := o.Readable(ctx, name); err != nil {
		return "", err // an earlier version of the jobs service does not check the caller
	}
	return o.RunID, r.Rows.Upsert(ctx, o)
}

// Admitted is like Readable, for a context that carries only the caller's token: the jobs service, which verifies the
// token, decides.
func (r *Runs) Admitted(ctx context.Context, name string) (string, error) {
	thing, prefix := kind(name)
	if err := id.Check(prefix, name); err != nil {
		return "", fault.InvalidFields(fault.At(fault.TypeStringPattern, "Input should be the id of a run or a job", "id"))
	}
	o, err := r.FetchOwner(ctx, name, true)
	if fault.Is(err, fault.Absent) {
		return "", fault.Absentf(thing, name).Wrap(err)
	}
	if err != nil {
		return "", err
	}
	return o.RunID, r.Rows.Upsert(ctx, o)
}

// Readable returns an Absent fault, which contains the given name, if the caller may not read the run.
func (o *Owner) Readable(ctx context.Context, name string) error {
	if authn.ScopeOf(ctx).Sees(o.OwnerID, o.ProjectID, o.Visibility) {
		return nil
	}
	thing, _ := kind(name)
	return fault.Absentf(thing, name)
}

// kind returns "job" if name has the prefix of the ids of jobs, and otherwise "run". It also returns the prefix of such
// ids.
func kind(name string) (thing string, prefix id.Prefix) {
	if strings.HasPrefix(name, string(id.Job)+"_") {
		return "job", id.Job
	}
	return "run", id.Run
}

// Find returns the owner of a run, given the id of the run or of its job. It reads ingest's own row. If the run has no
// row, Find fetches the owner from the jobs service and stores the row.
func (r *Runs) Find(ctx context.Context, name string) (*Owner, error) {
	o, err := r.Rows.Find(ctx, name)
	if o != nil || err != nil {
		return o, err
	}
	if o, err = r.FetchOwner(ctx, name, false); err != nil {
		return nil, err
	}
	return o, r.Rows.Upsert(ctx, o)
}

// Package run owns ingest's row of each run (its owner, as reported by jobs, the positions of its streams, and whether
// it is closed), its hyperparameters with the history of replaced values, and the signals that its training waits for:
// to save a checkpoint, to pause or to stop.
//
// It promises that only callers with access can read a run, and that hidden and absent runs look alike. Await returns
// at once if a signal is pending, otherwise when one arrives; a lost stream from jobs delays signals but loses none;
// and the number of waits per run and per server is bounded.
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
	VisibilityVersion  int64 // of its project
}

// Progress is the last positions of a run's streams, with the owner of the run at that moment.
type Progress struct {
	Owner             Owner
	LineSeq, BatchSeq int64
	ClosedAt, EndedAt *time.Time
	State             string
}

// Rows stores the rows of runs.
type Rows interface {
	// Find returns the owner for the id of a run or a job, or nil if there is no row.
	Find(ctx context.Context, id string) (*Owner, error)
	Upsert(ctx context.Context, o *Owner) error
}

// Runs finds runs for readers.
type Runs struct {
	Rows Rows
	// FetchOwner fetches the owner of a run or a job from jobs.
	FetchOwner func(ctx context.Context, id string) (*Owner, error)
}

// Readable returns the id of the run that name identifies, if the caller may read it. Hidden and absent runs cause
// the same error.
func (r *Runs) Readable(ctx context.Context, name string) (string, error) {
	thing, prefix := kind(name)
	if err := id.Check(prefix, name); err != nil {
		return "", fault.InvalidFields(fault.At(fault.TypeStringPattern, "Input should be the id of a run or a job", "id"))
	}
	o, err := r.Find(ctx, name)
	if fault.Is(err, fault.Absent) {
		return "", fault.Absentf(thing, name).Wrap(err)
	}
	if err != nil {
		return "", err
	}
	if err := o.Readable(ctx, name); err != nil {
		return "", err
	}
	return o.RunID, nil
}

// Readable returns nil if the caller may read the run. Otherwise it returns an Absent fault with the name that the
// caller used.
func (o *Owner) Readable(ctx context.Context, name string) error {
	if authn.ScopeOf(ctx).Sees(o.OwnerID, o.ProjectID, o.Visibility) {
		return nil
	}
	thing, _ := kind(name)
	return fault.Absentf(thing, name)
}

// kind returns whether a name identifies a run or a job, by its prefix.
func kind(name string) (thing string, prefix id.Prefix) {
	if strings.HasPrefix(name, string(id.Job)+"_") {
		return "job", id.Job
	}
	return "run", id.Run
}

// Find returns the owner for the id of a run or a job. It reads ingest's own row or, if no row exists, fetches
// the owner from jobs and stores it.
func (r *Runs) Find(ctx context.Context, name string) (*Owner, error) {
	o, err := r.Rows.Find(ctx, name)
	if o != nil || err != nil {
		return o, err
	}
	if o, err = r.FetchOwner(ctx, name); err != nil {
		return nil, err
	}
	return o, r.Rows.Upsert(ctx, o)
}

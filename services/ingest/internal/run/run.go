// Package run owns ingest's own row of each run: whose it is, as jobs told it at first sight, how far its
// streams have come, and whether it is closed. It judges who may read a run.
package run

import (
	"context"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Owner is whose a run is.
type Owner struct {
	RunID, JobID       string
	OwnerID            string
	ProjectID, Project string
	Visibility         string
	VisibilityVersion  int64 // of its project
}

// Progress is how far a run has come, and whose it is by then.
type Progress struct {
	Owner             Owner
	LineSeq, BatchSeq int64
	ClosedAt, EndedAt *time.Time
	State             string
}

// Rows keeps the rows.
type Rows interface {
	// Find answers the owner of a run's or a job's id, nil where no row is.
	Find(ctx context.Context, id string) (*Owner, error)
	Keep(ctx context.Context, o *Owner) error
}

// Runs finds runs for readers.
type Runs struct {
	Rows Rows
	// Ask asks jobs whose a run or a job is.
	Ask func(ctx context.Context, id string) (*Owner, error)
}

// Readable answers the run that an id names, if the caller may read it. Hidden and absent runs look alike.
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

// Readable is nil where the caller may read the run, and otherwise the fault of an absent thing by the name that
// the caller used for it.
func (o *Owner) Readable(ctx context.Context, name string) error {
	if authn.ScopeOf(ctx).Sees(o.OwnerID, o.ProjectID, o.Visibility) {
		return nil
	}
	thing, _ := kind(name)
	return fault.Absentf(thing, name)
}

// kind tells what a name is of, by its prefix: a run, or a run's job.
func kind(name string) (thing string, prefix id.Prefix) {
	if strings.HasPrefix(name, string(id.Job)+"_") {
		return "job", id.Job
	}
	return "run", id.Run
}

// Find answers the owner of a run's or a job's id, from ingest's own row or, the first time, from jobs.
func (r *Runs) Find(ctx context.Context, name string) (*Owner, error) {
	o, err := r.Rows.Find(ctx, name)
	if o != nil || err != nil {
		return o, err
	}
	if o, err = r.Ask(ctx, name); err != nil {
		return nil, err
	}
	return o, r.Rows.Keep(ctx, o)
}

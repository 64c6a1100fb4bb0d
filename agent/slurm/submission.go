package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// identify returns the id of the Slurm job that runs the attempt. It submits the attempt if no job exists. The id is
// empty if that is not known yet. The result end is set if the attempt was stopped before, or if Slurm refuses it.
func (a *attempt) identify(ctx context.Context, seen snapshot, stopping bool) (id string, end *host.End, err error) {
	id = recorded(a.dir)
	if owner := claimed(a.dir); owner != "" && owner != id {
		// Another submission of this attempt has started first. sweep cancels the other one.
		a.job, a.overAt, a.absent = Job{}, time.Time{}, 0
		return owner, nil, save(a.dir, owner)
	}
	if id != "" {
		return id, nil, nil
	}
	var began submitting
	err = localfile.ReadJSON(submittingFile(a.dir), &began)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	if err == nil {
		if found := a.find(seen); found != "" {
			a.deps.Log.InfoContext(ctx, "found the Slurm job of an attempt", "work", a.order.Key.String(), "job", found)
			return found, nil, save(a.dir, found)
		}
		if !a.conclusive(seen, began.At) {
			a.soon()
			return "", nil, nil
		}
	}
	if stopping {
		return "", &host.End{}, nil
	}
	return a.submit(ctx)
}

// conclusive reports whether the query shows that a submission has created no job. The controller may still be handling
// the submission for some time.
func (a *attempt) conclusive(seen snapshot, since time.Time) bool {
	const handling, longest, doublings = 10 * time.Second, 5 * time.Minute, 5
	if a.triedAt.After(since) {
		since = a.triedAt
	}
	wait := min(handling<<min(max(a.tries-1, 0), doublings), longest)
	return seen.number > 0 && seen.problem == nil && seen.at.Sub(since) >= wait
}

// find returns the id of a job with the comment of the attempt in the last query, or "".
func (a *attempt) find(seen snapshot) string {
	for id, j := range seen.jobs {
		if a.owns(a.order.Key, j) && (!j.Ended() || j.Nodes != "") {
			return id
		}
	}
	return ""
}

// submit calls sbatch and records the id of the job.
func (a *attempt) submit(ctx context.Context) (id string, end *host.End, err error) {
	a.triedAt = a.deps.Clock.Now()
	for _, p := range a.order.Batch.Parts {
		if err := a.checkUser(ctx, p.Slurm); err != nil {
			return "", &host.End{Reason: executor.ReasonStart, Message: err.Error()}, nil
		}
	}
	if err := localfile.WriteJSON(submittingFile(a.dir), submitting{At: a.triedAt}, localfile.PrivateMode); err != nil {
		return "", nil, err
	}
	out, err := a.deps.Commands.Run(ctx, "sbatch", a.arguments(a.dir, a.order)...)
	if ctx.Err() != nil {
		return "", nil, ctx.Err()
	}
	defer a.soon()
	a.triedAt = a.deps.Clock.Now() // earlier queries may lack the job
	if refused, ok := errors.AsType[*CommandError](err); ok && !passing(refused) {
		if err := os.Remove(submittingFile(a.dir)); err != nil {
			return "", nil, fmt.Errorf("remove the mark of a submission: %w", err)
		}
		return "", &host.End{Reason: executor.ReasonStart, Message: refusal(refused)}, nil
	}
	if err == nil {
		id, err = parseID(string(out))
	}
	if err != nil {
		a.tries++
		a.trouble = "Slurm does not accept the attempt yet: " + err.Error()
		a.deps.Log.WarnContext(ctx, "cannot submit an attempt to Slurm; trying again", "work", a.order.Key.String(), "error", err.Error())
		return "", nil, a.report("")
	}
	a.trouble = ""
	return id, nil, save(a.dir, id)
}

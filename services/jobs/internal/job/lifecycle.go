package job

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Lifecycle events that the training reports.
const (
	ReportStarting  = "starting"
	ReportRunning   = "running"
	ReportSucceeded = "succeeded"
	ReportFailed    = "failed"
)

// Place creates the next attempt of a queued job once the scheduler has found nodes for it. It returns false
// if the job cannot move to scheduled.
func (j *Job) Place(attemptID, nodeID string, now time.Time) (*Attempt, bool) {
	if !CanMove(j.State, Scheduled) {
		return nil, false
	}
	j.State, j.Attempt = Scheduled, j.Attempt+1
	j.ScheduledAt, j.NotBefore, j.Collected = &now, nil, nil
	j.Queue = Queue{Since: j.Queue.Since}
	a := &Attempt{
		ID: attemptID, JobID: j.ID, Number: j.Attempt, State: Scheduled, NodeID: nodeID,
		Held: j.GPUs, CreatedAt: now,
	}
	if j.Checkpoint != nil {
		a.ResumedFrom, a.ResumedStep = j.Checkpoint.ArtifactID, j.Checkpoint.Step
	}
	return a, true
}

// Withdraw undoes the placement of an attempt that never started. The next attempt reuses its number.
func (j *Job) Withdraw(now time.Time) {
	j.State, j.Attempt, j.ScheduledAt, j.BatchHeld = Queued, j.Attempt-1, nil, false
	j.Queue = Queue{Reason: WaitPoolCapacity, Detail: "the node became unavailable before the attempt started", Since: now}
}

// Observe applies the executor's state to the job and the attempt. It returns the type of the resulting event, or an
// empty string if the change has no event. A user's own command may never report, so the job counts as running once
// the process runs. Billing starts at RunningAt, which still needs a report.
func (j *Job) Observe(a *Attempt, g gang.Gang, now time.Time) (event string) {
	if a.Over() {
		return ""
	}
	changed := ""
	if g.Phase != a.Phase {
		a.Phase = g.Phase
	}
	if g.Begun && j.State == Scheduled {
		j.start(a, now)
		changed = "job.starting"
	}
	if g.Runs && a.ExecutorRunningAt == nil {
		a.ExecutorRunningAt = &now
		j.ExecutorRunningAt = &now
		switch {
		case j.OwnCommand && j.State == Starting && a.ReportedStartingAt == nil:
			j.State, a.State = Running, Running
			changed = "job.running"
		case changed == "":
			changed = "job.executor_running"
		}
	}
	return changed
}

// start moves a scheduled job to starting. A batch system chooses the nodes of a job that it holds only now.
func (j *Job) start(a *Attempt, now time.Time) {
	if j.endHold() {
		j.ScheduledAt = &now
	}
	j.State, a.State = Starting, Starting
	a.StartingAt, j.StartingAt = &now, &now
}

// Report applies a reported lifecycle event to the job's attempt. Events may be skipped but not reordered. Each of
// these is a conflict: `starting` after `running`, a different event after a terminal event, and a new event after the
// attempt has ended. Otherwise, a repeated event changes nothing. Billing starts at the given time if the event is the
// attempt's first running event.
func (j *Job) Report(a *Attempt, event, message string, now time.Time) (applied bool, err error) {
	terminal := event == ReportSucceeded || event == ReportFailed
	switch {
	case a.ReportedEnd != "" && a.ReportedEnd == event:
		return false, nil
	case a.ReportedEnd != "":
		return false, lifecycleConflict("%s was already reported; %s cannot follow", a.ReportedEnd, event)
	case a.Over() || a.Closing != nil:
		return false, lifecycleConflict("attempt %d has ended; %s cannot follow", a.Number, event)
	case terminal:
		a.ReportedEnd, a.ReportedMessage = event, message
		return true, nil
	case event == ReportStarting:
		return j.reportStarting(a, now)
	case event == ReportRunning:
		return j.reportRunning(a, now), nil
	}
	return false, fault.InvalidFields(fault.At(fault.TypeEnum,
		"Input should be 'starting', 'running', 'succeeded' or 'failed'", "event"))
}

func (j *Job) reportStarting(a *Attempt, now time.Time) (bool, error) {
	if a.RunningAt != nil {
		return false, lifecycleConflict("running was already reported; %s cannot follow", ReportStarting)
	}
	if a.ReportedStartingAt != nil {
		return false, nil
	}
	a.ReportedStartingAt = &now
	if j.State == Scheduled {
		j.start(a, now)
	}
	return true, nil
}

func (j *Job) reportRunning(a *Attempt, now time.Time) bool {
	if a.RunningAt != nil {
		return false
	}
	a.RunningAt, j.RunningAt = &now, &now
	if j.State == Scheduled {
		j.start(a, now)
	}
	if j.State == Starting { // a job that is being paused or stopped keeps its state
		j.State, a.State = Running, Running
	}
	return true
}

func lifecycleConflict(format string, args ...any) error {
	return fault.New(fault.Conflict, "lifecycle", "lifecycle: "+format, args...)
}

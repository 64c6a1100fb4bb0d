package job

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Lifecycle events that the training reports.
const (
	ReportStarting  = "starting"
	ReportRunning   = "running"
	ReportSucceeded = "succeeded"
	ReportFailed    = "failed"
)

// Report applies a reported lifecycle event to the job's attempt. Events may be skipped but not reordered: starting
// after running, and a different event after a terminal one, are conflicts. A repeated event changes nothing. The
// billing starts at now if the event is the attempt's first running event.
func (j *Job) Report(a *Attempt, event, message string, now time.Time) (applied bool, err error) {
	terminal := event == ReportSucceeded || event == ReportFailed
	switch {
	case a.ReportedEnd != "" && a.ReportedEnd == event:
		return false, nil
	case a.ReportedEnd != "":
		return false, lifecycleConflict("%s was already reported; %s cannot follow", a.ReportedEnd, event)
	case a.Over():
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
	if CanMove(j.State, Running) {
		j.State, a.State = Running, Running
	}
	return true
}

func (j *Job) start(a *Attempt, now time.Time) {
	j.State, a.State = Starting, Starting
	a.StartingAt, j.StartingAt = &now, &now
}

func lifecycleConflict(format string, args ...any) error {
	return fault.New(fault.Conflict, "lifecycle", "lifecycle: "+format, args...)
}

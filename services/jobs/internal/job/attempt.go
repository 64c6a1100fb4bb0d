package job

import (
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Attempt is one execution of a job.
type Attempt struct {
	ID       string
	JobID    string
	Number   int
	State    State
	NodeID   string // the node of rank 0
	Held     int    // GPUs charged to the job's owner and team; released once
	Phase    string // the executor's phase
	ExitCode *int

	EndReason string
	Message   string

	// ReportedEnd is the terminal lifecycle event that the training sent, or empty.
	ReportedEnd     string
	ReportedMessage string

	// ResumedFrom is the checkpoint artifact that the attempt started from, or empty.
	ResumedFrom string

	CreatedAt          time.Time
	StartingAt         *time.Time
	ReportedStartingAt *time.Time
	ExecutorRunningAt  *time.Time // set from the executor's report
	RunningAt          *time.Time // when the training reported running; billing starts here
	ListensAt          *time.Time // when the training first polled for signals
	EndedAt            *time.Time
}

// Over reports whether the attempt has ended.
func (a *Attempt) Over() bool { return a.EndedAt != nil }

// Place creates the next attempt of a queued job once the scheduler has found nodes for it. It returns false
// if the job cannot move to scheduled.
func (j *Job) Place(attemptID, nodeID string, now time.Time) (*Attempt, bool) {
	if !CanMove(j.State, Scheduled) {
		return nil, false
	}
	j.State, j.Attempt = Scheduled, j.Attempt+1
	j.ScheduledAt, j.NotBefore = &now, nil
	j.Queue = Queue{Since: j.Queue.Since}
	a := &Attempt{
		ID: attemptID, JobID: j.ID, Number: j.Attempt, State: Scheduled, NodeID: nodeID,
		Held: j.GPUs, CreatedAt: now,
	}
	if j.Checkpoint != nil {
		a.ResumedFrom = j.Checkpoint.ArtifactID
	}
	return a, true
}

// Withdraw undoes the placement of an attempt that never started. The next attempt reuses its number.
func (j *Job) Withdraw(now time.Time) {
	j.State, j.Attempt, j.ScheduledAt = Queued, j.Attempt-1, nil
	j.Queue = Queue{Reason: WaitPoolCapacity, Detail: "the node became unavailable before the attempt started", Since: now}
}

// Observe applies the executor's state to the job and the attempt. It returns the type of the resulting event, or an
// empty string if the change has no event.
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
		if changed == "" {
			changed = "job.executor_running"
		}
	}
	return changed
}

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
	NodeID   string // of rank 0
	Held     int    // GPUs of the job's owner and team, given back once
	Phase    string // what the executor is doing
	ExitCode *int

	EndReason string
	Message   string

	// ReportedEnd is the terminal lifecycle event that the training sent, empty before.
	ReportedEnd     string
	ReportedMessage string

	// ResumedFrom is the artifact that it began from, empty for none.
	ResumedFrom string

	CreatedAt          time.Time
	StartingAt         *time.Time
	ReportedStartingAt *time.Time
	ExecutorRunningAt  *time.Time // the executor's own mark
	RunningAt          *time.Time // the reported running: the billing start
	ListensAt          *time.Time // since when the training asks for signals
	EndedAt            *time.Time
}

// Over says whether the attempt has ended.
func (a *Attempt) Over() bool { return a.EndedAt != nil }

// Place begins the next attempt of a queued job: the scheduler has found its nodes.
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

// Withdraw takes back the placement of an attempt that never began: its number is free again.
func (j *Job) Withdraw(now time.Time) {
	j.State, j.Attempt, j.ScheduledAt = Queued, j.Attempt-1, nil
	j.Queue = Queue{Reason: WaitPoolCapacity, Detail: "the node that it was placed on was lost", Since: now}
}

// Observe applies what the executor was seen doing. It answers what changed, in words of the event
// list, or nothing.
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

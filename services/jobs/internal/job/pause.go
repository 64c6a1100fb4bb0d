package job

import (
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Checkpoint is a registered artifact that training can resume from.
type Checkpoint struct {
	ArtifactID string    `json:"artifact_id"`
	Attempt    int       `json:"attempt"`
	Step       *int64    `json:"step"`
	Format     string    `json:"format"`
	URI        string    `json:"uri"`
	Size       int64     `json:"size_bytes"`
	SHA256     string    `json:"sha256"`
	Packed     bool      `json:"packed"`
	CreatedAt  time.Time `json:"created_at"`
}

// holdsState reports whether a checkpoint of this format has the full training state. GGUF files hold only
// weights for serving.
func holdsState(format string) bool { return format != "gguf" }

// Register records a checkpoint if training can resume from it and it is newer than the recorded one. It
// reports whether it did.
func (j *Job) Register(c Checkpoint) bool {
	last := j.Checkpoint
	newer := last == nil || c.Attempt > last.Attempt || c.Attempt == last.Attempt && c.CreatedAt.After(last.CreatedAt)
	dropped := j.State == Queued && j.RetryFrom == ResumeNone
	if !holdsState(c.Format) || !newer || dropped || j.State.Terminal() {
		return false
	}
	j.Checkpoint = &c
	return true
}

// Pause requests a checkpoint from a running job; its processes are stopped afterwards. A repeated call changes
// nothing. A job that could not save its work is refused, unless its spec allows a pause without a checkpoint.
func (j *Job) Pause(a *Attempt, signalID string, now time.Time) (changed bool, err error) {
	switch {
	case j.State == Pausing:
		return false, nil
	case j.State != Running:
		return false, fault.New(fault.Conflict, "job_state", "only a running job can be paused: job %s is %s", j.ID, j.State)
	case a.Collecting():
		return false, fault.New(fault.Conflict, "job_state", "only a running job can be paused: the processes of job %s have ended", j.ID)
	case j.CheckpointNeeded && j.Checkpoint == nil && !j.Resumable && a.ListensAt == nil:
		return false, fault.New(fault.Conflict, "checkpoint",
			"checkpoint: job %s has no checkpoint to resume from and does not listen for signals; a pause would lose its work", j.ID)
	}
	deadline := now.Add(seconds(j.CheckpointGraceS))
	j.State, a.State = Pausing, Pausing
	j.Signal = Signal{ID: signalID, Deadline: &deadline}
	return true, nil
}

// Ack records that the training has carried out a signal. It reports whether the job changed. Acknowledging
// the pause that follows a saved checkpoint, or the stop of an ended job, changes nothing.
func (j *Job) Ack(signalID string, now time.Time) (changed bool, err error) {
	switch current := j.CurrentSignal(); {
	case signalID != "" && signalID == current.ID && current.ID != j.Signal.ID:
		return false, nil
	case signalID != j.Signal.ID || signalID == "" || (j.State != Pausing && j.State != Stopping):
		return false, fault.New(fault.Conflict, "signal", "signal: %s is not the run's current signal", signalID)
	case j.Signal.AckedAt != nil:
		return false, nil
	case j.State == Pausing && j.CheckpointNeeded && j.Checkpoint == nil:
		return false, fault.New(fault.Conflict, "checkpoint", "checkpoint: no checkpoint to resume from is registered")
	}
	j.Signal.AckedAt = &now
	return true, nil
}

// GraceEnd states what to do about a pause that waits for its checkpoint.
type GraceEnd int

// The values of GraceEnd.
const (
	GraceActive    GraceEnd = iota // nothing to do: the grace period is not over, or no checkpoint is awaited
	GraceForced                    // stop the processes; the job later resumes from its last checkpoint, if any
	GraceAbandoned                 // a checkpoint is required and there is none: the job keeps running
)

// GraceOver decides what happens to a pause whose checkpoint is not acknowledged by the deadline.
func (j *Job) GraceOver(now time.Time) GraceEnd {
	if j.State != Pausing || j.Signal.AckedAt != nil || j.Signal.Deadline == nil || now.Before(*j.Signal.Deadline) {
		return GraceActive
	}
	if j.CheckpointNeeded && j.Checkpoint == nil {
		return GraceAbandoned
	}
	return GraceForced
}

// KeepRunning cancels a pause: the job and its attempt are running again.
func (j *Job) KeepRunning(a *Attempt) {
	j.State, a.State = Running, Running
	j.Signal = Signal{}
}

// NoCheckpointWords returns the message of the event that cancels a pause.
func (j *Job) NoCheckpointWords() string {
	return fmt.Sprintf("no checkpoint was registered within %d seconds; the job keeps running", j.CheckpointGraceS)
}

// Resume puts a paused job back into the queue.
func (j *Job) Resume(now time.Time) error {
	if j.State != Paused {
		return fault.New(fault.Conflict, "job_state", "only a paused job can be resumed: job %s is %s", j.ID, j.State)
	}
	j.State, j.PausedAt = Queued, nil
	j.Queue = Queue{Reason: WaitNew, Since: now}
	j.forgetAttempt()
	return nil
}

// forgetAttempt clears the timestamps of the ended attempt; the next attempt sets its own.
func (j *Job) forgetAttempt() {
	j.ScheduledAt, j.StartingAt, j.ExecutorRunningAt, j.RunningAt = nil, nil, nil, nil
}

// judgePause decides the outcome of an attempt whose job is pausing. The job is paused if the training acknowledged
// the checkpoint, the agent stopped or lost the attempt, or the attempt exited cleanly after it had received the request
// and saved a checkpoint. Otherwise the end counts as it would without the pause: the command ended by itself. Reported
// success takes precedence.
func judgePause(j *Job, a *Attempt, exit gang.Exit) Outcome {
	taken := exit.Reason == gang.ExitStopped || exit.Reason == gang.ExitLost
	clean := a.ReportedEnd == "" && exit.Code == 0 && exit.Signal == 0 && exit.Reason == "" && a.HeardSignal == j.Signal.ID
	switch {
	case a.ReportedEnd == string(Succeeded):
		return succeeded(exit)
	case j.Signal.AckedAt != nil, taken, clean && j.savedSince(a):
		return Outcome{State: Paused}
	case a.ReportedEnd == string(Failed):
		return reportedFailure(a, exit)
	}
	return judgeExit(j, a, exit)
}

// savedSince reports whether the attempt has registered a checkpoint since the pause was requested.
func (j *Job) savedSince(a *Attempt) bool {
	c := j.Checkpoint
	return c != nil && c.Attempt == a.Number && j.Signal.Deadline != nil &&
		!c.CreatedAt.Before(j.Signal.Deadline.Add(-seconds(j.CheckpointGraceS)))
}

// PendingSignal is the current signal to the training of a run.
type PendingSignal struct {
	Signal   string
	ID       string
	Deadline *time.Time
}

// The signals to the training.
const (
	SignalNone       = "none"
	SignalCheckpoint = "checkpoint"
	SignalPause      = "pause"
	SignalStop       = "stop"
)

// CurrentSignal returns the current signal to the training.
func (j *Job) CurrentSignal() PendingSignal {
	switch {
	case j.State == Pausing && j.Signal.AckedAt == nil:
		return PendingSignal{Signal: SignalCheckpoint, ID: j.Signal.ID, Deadline: j.Signal.Deadline}
	case j.State == Pausing:
		return PendingSignal{Signal: SignalPause, ID: j.Signal.ID + pauseSuffix, Deadline: j.Signal.Deadline}
	case j.State == Stopping && j.Signal.ID != "":
		return PendingSignal{Signal: SignalStop, ID: j.Signal.ID, Deadline: j.Signal.Deadline}
	case j.State.Terminal():
		return PendingSignal{Signal: SignalStop, ID: string(j.State)}
	}
	return PendingSignal{Signal: SignalNone}
}

// pauseSuffix distinguishes the ID of the pause signal from that of the checkpoint signal before it.
const pauseSuffix = ".saved"

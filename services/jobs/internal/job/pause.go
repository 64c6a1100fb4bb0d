package job

import (
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Checkpoint is a registered artifact from which training can go on.
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

// holdsState says whether a checkpoint of this format has all that training goes on from. GGUF is the
// weights alone, to be served.
func holdsState(format string) bool { return format != "gguf" }

// Register keeps a checkpoint of the job's attempt in mind where it is newer than the one before. It
// answers whether that is news.
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

// Pause asks a running job for a checkpoint, after which what runs is ended. Asking again changes nothing.
// A job that could only lose what it has done is refused, unless its spec allows that.
func (j *Job) Pause(a *Attempt, signalID string, now time.Time) (changed bool, err error) {
	switch {
	case j.State == Pausing:
		return false, nil
	case j.State != Running:
		return false, fault.New(fault.Conflict, "job_state", "only a running job can be paused: job %s is %s", j.ID, j.State)
	case j.CheckpointNeeded && j.Checkpoint == nil && !j.Resumable && a.ListensAt == nil:
		return false, fault.New(fault.Conflict, "checkpoint",
			"checkpoint: job %s has none to go on from and does not ask for signals, so a pause would lose its work", j.ID)
	}
	deadline := now.Add(seconds(j.CheckpointGraceS))
	j.State, a.State = Pausing, Pausing
	j.Signal = Signal{ID: signalID, Deadline: &deadline}
	return true, nil
}

// Ack takes the training's word that it has done what a signal asked. It answers whether that is news: of the
// second half of a pause and of an end it is none.
func (j *Job) Ack(signalID string, now time.Time) (changed bool, err error) {
	switch asked := j.Asks(); {
	case signalID != "" && signalID == asked.ID && asked.ID != j.Signal.ID:
		return false, nil
	case signalID != j.Signal.ID || signalID == "" || (j.State != Pausing && j.State != Stopping):
		return false, fault.New(fault.Conflict, "signal", "signal: %s is not what the run is asked now", signalID)
	case j.Signal.AckedAt != nil:
		return false, nil
	case j.State == Pausing && j.CheckpointNeeded && j.Checkpoint == nil:
		return false, fault.New(fault.Conflict, "checkpoint", "checkpoint: none is registered that training can go on from")
	}
	j.Signal.AckedAt = &now
	return true, nil
}

// GraceEnd is what a pause comes to whose checkpoint has not come.
type GraceEnd int

// The ends.
const (
	GraceHolds   GraceEnd = iota
	GraceKills            // what runs is ended; the job goes on from the last checkpoint
	GraceGivenUp          // there is none, and one is needed: the job runs on
)

// GraceOver judges a pause whose checkpoint has not come in time.
func (j *Job) GraceOver(now time.Time) GraceEnd {
	if j.State != Pausing || j.Signal.AckedAt != nil || j.Signal.Deadline == nil || now.Before(*j.Signal.Deadline) {
		return GraceHolds
	}
	if j.CheckpointNeeded && j.Checkpoint == nil {
		return GraceGivenUp
	}
	return GraceKills
}

// KeepRunning takes back a pause.
func (j *Job) KeepRunning(a *Attempt) {
	j.State, a.State = Running, Running
	j.Signal = Signal{}
}

// NoCheckpointWords tells why a job that was to be paused runs on.
func (j *Job) NoCheckpointWords() string {
	return fmt.Sprintf("no checkpoint was registered within %d seconds: the job goes on", j.CheckpointGraceS)
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

// forgetAttempt clears the marks of an attempt that is over: the next one has its own.
func (j *Job) forgetAttempt() {
	j.ScheduledAt, j.StartingAt, j.ExecutorRunningAt, j.RunningAt = nil, nil, nil, nil
}

// judgePause decides what the end of an attempt means whose job is being paused: paused where it was ended
// for that, or ended by itself after it had saved; and otherwise what it would have meant without the pause.
// A training that reached its goal first has reached it.
func judgePause(j *Job, a *Attempt, exit gang.Exit) Outcome {
	taken := exit.Reason == gang.ExitStopped || exit.Reason == gang.ExitLost
	clean := a.ReportedEnd == "" && exit.Code == 0 && exit.Signal == 0 && exit.Reason == ""
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

// savedSince says whether the attempt has registered a checkpoint since the pause was asked for.
func (j *Job) savedSince(a *Attempt) bool {
	c := j.Checkpoint
	return c != nil && c.Attempt == a.Number && j.Signal.Deadline != nil &&
		!c.CreatedAt.Before(j.Signal.Deadline.Add(-seconds(j.CheckpointGraceS)))
}

// Asked is what the training of a run is asked to do now.
type Asked struct {
	Signal   string
	ID       string
	Deadline *time.Time
}

// The signals, a closed list.
const (
	SignalNone       = "none"
	SignalCheckpoint = "checkpoint"
	SignalPause      = "pause"
	SignalStop       = "stop"
)

// Asks answers what the training is asked to do now.
func (j *Job) Asks() Asked {
	switch {
	case j.State == Pausing && j.Signal.AckedAt == nil:
		return Asked{Signal: SignalCheckpoint, ID: j.Signal.ID, Deadline: j.Signal.Deadline}
	case j.State == Pausing:
		return Asked{Signal: SignalPause, ID: j.Signal.ID + pauseSuffix, Deadline: j.Signal.Deadline}
	case j.State == Stopping:
		return Asked{Signal: SignalStop, ID: j.Signal.ID, Deadline: j.Signal.Deadline}
	case j.State.Terminal():
		return Asked{Signal: SignalStop, ID: string(j.State)}
	}
	return Asked{Signal: SignalNone}
}

// pauseSuffix tells the second half of a pause from the first.
const pauseSuffix = ".saved"

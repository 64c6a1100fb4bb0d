package job

import (
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// StopGrace is how long the processes of an attempt have to exit by themselves.
const StopGrace = 30 * time.Second

// Stop stops a job. A queued or paused job ends at once, because it has no processes. A placed job is stopping
// until the executor confirms that no process is left. It gets no signal if its processes have ended already; judgeStop
// then decides as if the job were not stopping. A repeated call while the job is stopping changes nothing; a job that has
// ended is a conflict. The attempt is nil if the job was never placed.
func (j *Job) Stop(a *Attempt, reason string, now time.Time) (changed bool, err error) {
	switch {
	case j.State.Terminal():
		return false, fault.New(fault.Conflict, "job_ended", "job %s has already ended: it is %s", j.ID, j.State)
	case j.State == Stopping:
		return false, nil
	case j.State == Queued || j.State == Paused:
		j.StopReason = reason
		j.finish(Stopped, reason, stopMessage(j), now)
		return true, nil
	}
	j.endHold()
	j.State, j.StopReason = Stopping, reason
	if j.Signal = (Signal{}); a.Collecting() {
		return true, nil
	}
	deadline := now.Add(StopGrace)
	j.Signal = Signal{ID: fmt.Sprintf("stop.%d", j.Attempt), Deadline: &deadline}
	return true, nil
}

// judgeStop decides the outcome of an attempt whose job is stopping. The job is stopped if the agent or the training has
// received the signal to stop before the command ended. Otherwise the end counts as it would without the stop, but the
// job gets no further attempt.
func judgeStop(j *Job, a *Attempt, exit gang.Exit) Outcome {
	stopped := Outcome{State: Stopped, Reason: j.StopReason, Message: stopMessage(j)}
	if j.StopReason == ReasonQueueTimeout {
		stopped.State = Failed // it never started
	}
	heard := j.Signal.AckedAt != nil || j.Signal.ID != "" && a.HeardSignal == j.Signal.ID
	if heard || exit.Reason == gang.ExitStopped || exit.Reason == gang.ExitLost {
		return stopped
	}
	if out := judgeEnd(j, a, exit); out.State.Terminal() {
		return out
	}
	return stopped
}

// ExpireQueue fails a job that has waited longer than its queue limit. It reports whether it did.
func (j *Job) ExpireQueue(now time.Time) bool {
	if j.State != Queued || now.Before(j.Queue.Since.Add(seconds(j.QueueS))) {
		return false
	}
	j.finish(Failed, ReasonQueueTimeout, queueTimeout(j), now)
	return true
}

func queueTimeout(j *Job) string {
	return fmt.Sprintf("the job waited in the queue for more than %d seconds", j.QueueS)
}

// Overdue returns the end reason of the limit that a placed job has passed, or an empty string. While a batch system holds
// the job, this is the limit of the queue. The running time counts from the reported running event. A user's own
// command may never report; until it does, its running time counts from the executor's start of the process.
func (j *Job) Overdue(now time.Time) string {
	began := j.RunningAt
	if began == nil && j.OwnCommand {
		began = j.ExecutorRunningAt
	}
	switch {
	case j.State != Scheduled && j.State != Starting && j.State != Running:
		return ""
	case j.BatchHeld && !now.Before(j.Queue.Since.Add(seconds(j.QueueS))):
		return ReasonQueueTimeout
	case j.BatchHeld:
		return ""
	case began != nil && !now.Before(began.Add(seconds(j.RunningS))):
		return ReasonTimeLimit
	case began == nil && j.ScheduledAt != nil && !now.Before(j.ScheduledAt.Add(seconds(j.StartingS))):
		return ReasonStartTimeout
	}
	return ""
}

func stopMessage(j *Job) string {
	switch j.StopReason {
	case ReasonTimeLimit:
		return fmt.Sprintf("the job ran for more than %d seconds", j.RunningS)
	case ReasonStartTimeout:
		if j.OwnCommand {
			return fmt.Sprintf("the command was not started within %d seconds of placement", j.StartingS)
		}
		return fmt.Sprintf("`running` was not reported within %d seconds of placement", j.StartingS)
	case ReasonQueueTimeout:
		return queueTimeout(j)
	case ReasonAdminStop:
		return "stopped by an admin"
	}
	return "stopped by its owner or an editor of its project"
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

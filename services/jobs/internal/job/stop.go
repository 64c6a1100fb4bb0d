package job

import (
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// StopGrace is what the processes of an attempt get to end by themselves.
const StopGrace = 30 * time.Second

// Stop asks for the end of a job. A queued or paused one ends at once: there is nothing to kill. A placed one
// is stopping until the executor has confirmed that no process is left. Asking again while it stops
// changes nothing; a job that has ended is a conflict.
func (j *Job) Stop(reason string, now time.Time) (changed bool, err error) {
	switch {
	case j.State.Terminal():
		return false, fault.New(fault.Conflict, "job_ended", "job %s has ended already: it is %s", j.ID, j.State)
	case j.State == Stopping:
		return false, nil
	case j.State == Queued || j.State == Paused:
		j.StopReason = reason
		j.finish(Stopped, reason, stopWords(j), now)
		return true, nil
	}
	j.State, j.StopReason = Stopping, reason
	deadline := now.Add(StopGrace)
	j.Signal = Signal{ID: fmt.Sprintf("stop.%d", j.Attempt), Deadline: &deadline}
	return true, nil
}

// ExpireQueue fails a job that waited longer than it may.
func (j *Job) ExpireQueue(now time.Time) bool {
	if j.State != Queued || now.Before(j.Queue.Since.Add(seconds(j.QueueS))) {
		return false
	}
	j.finish(Failed, ReasonQueueTimeout, fmt.Sprintf("it waited in the queue for more than %d seconds", j.QueueS), now)
	return true
}

// Overdue names the limit that a placed job has passed, or nothing. What a job may run counts from its
// report of `running`; a command of the user's own may never report, and counts from the executor's mark
// until it does.
func (j *Job) Overdue(now time.Time) string {
	began := j.RunningAt
	if began == nil && j.OwnCommand {
		began = j.ExecutorRunningAt
	}
	switch {
	case j.State != Scheduled && j.State != Starting && j.State != Running:
		return ""
	case began != nil && !now.Before(began.Add(seconds(j.RunningS))):
		return ReasonTimeLimit
	case began == nil && j.ScheduledAt != nil && !now.Before(j.ScheduledAt.Add(seconds(j.StartingS))):
		return ReasonStartTimeout
	}
	return ""
}

func stopWords(j *Job) string {
	switch j.StopReason {
	case ReasonTimeLimit:
		return fmt.Sprintf("it ran for more than %d seconds", j.RunningS)
	case ReasonStartTimeout:
		return fmt.Sprintf("no `running` was reported within %d seconds of its placement", j.StartingS)
	case ReasonAdminStop:
		return "stopped by an admin"
	}
	return "stopped by its owner"
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

package job

import (
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/gang"
)

// Closing is the decided end of an attempt that ends its job. The job gets its final state when the streams of its run
// are closed: in that state, everything that the run has reported can be read. What happens meanwhile does not change the
// decision.
type Closing struct {
	Exit    gang.Exit `json:"exit"`
	Outcome Outcome   `json:"outcome"`
	// At is when the attempt ended. At Until the job ends even if the streams could not be closed.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	// Collected reports whether the nodes have delivered all output and reports.
	Collected bool `json:"collected"`
	// ActorKind and ActorID identify the reporter of the end.
	ActorKind string `json:"actor_kind"`
	ActorID   string `json:"actor_id"`
}

const (
	// CollectTime is the longest time from the end of the processes until the job ends.
	CollectTime = 15 * time.Minute
	// minCloseTime is the shortest time that the closing of a run may take before its job ends without it.
	minCloseTime = time.Minute
)

// CloseUntil returns when a job ends even if its run could not be closed. The processes ended at the given time, by the
// clock of their node; exitedAt is nil if that is not known.
func CloseUntil(exitedAt *time.Time, now time.Time) time.Time {
	left := CollectTime
	if exitedAt != nil {
		left = exitedAt.Add(CollectTime).Sub(now)
	}
	return now.Add(min(max(left, minCloseTime), CollectTime))
}

// Conclude ends the attempt and its job as decided. The parameter closed reports whether the streams of the run are
// closed.
func (j *Job) Conclude(a *Attempt, closed bool) {
	c := a.Closing
	j.End(a, c.Exit, c.Outcome, c.At)
	j.Collect(a, c.Collected && closed)
}

// Collect records whether all output and reports of an ended attempt were delivered before its end.
func (j *Job) Collect(a *Attempt, all bool) { a.Collected, j.Collected = &all, &all }

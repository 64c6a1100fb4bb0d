package job

import (
	"cmp"
	"slices"
	"time"
)

// batchMargin is how much later a batch system ends an attempt than Signalbox would.
const batchMargin = 10 * time.Minute

// BatchLimit returns the time after its start at which a batch system ends an attempt, for a job with these limits and
// this grace period of checkpoints, in seconds. Signalbox enforces its limits earlier.
func BatchLimit(runningS, startingS, checkpointGraceS int) time.Duration {
	return seconds(runningS) + seconds(startingS) + seconds(checkpointGraceS) + StopGrace + batchMargin
}

// BatchLimit returns the time after its start at which a batch system ends an attempt of the job.
func (j *Job) BatchLimit() time.Duration {
	return BatchLimit(j.RunningS, j.StartingS, j.CheckpointGraceS)
}

// Hold marks a scheduled job as one that a batch system must start.
func (j *Job) Hold() { j.BatchHeld = true }

// Waits reports whether the job is queued, or held by a batch system that has stated a reason.
func (j *Job) Waits() bool {
	return j.State == Queued || j.State == Scheduled && j.BatchHeld && j.Queue.Reason != ""
}

// Explain sets why a batch system holds the job, and reports whether that changed anything.
func (j *Job) Explain(reason, detail string) bool {
	if j.State != Scheduled || !j.BatchHeld || j.Queue.Reason == reason && j.Queue.Detail == detail {
		return false
	}
	j.Queue.Reason, j.Queue.Detail = reason, detail
	return true
}

// endHold ends the time for which a batch system holds the job, and reports whether it was held.
func (j *Job) endHold() bool {
	if !j.BatchHeld {
		return false
	}
	j.BatchHeld, j.Queue = false, Queue{Since: j.Queue.Since}
	return true
}

// SeeBatch records what is known of the attempt in a batch system. Empty arguments change nothing.
func (a *Attempt) SeeBatch(id string, nodes []string) {
	a.BatchID = cmp.Or(id, a.BatchID)
	if len(nodes) > 0 {
		a.BatchNodes = slices.Clone(nodes)
	}
}

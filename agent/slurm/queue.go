package slurm

import (
	"strings"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Job is a job in Slurm's queue.
type Job struct {
	// ID is the id of the job; for a heterogeneous job, the id of its first part.
	ID string
	// State is Slurm's long name of the state, such as PENDING.
	State string
	// Reason is why the job waits or has ended, such as Priority; empty if Slurm gives none.
	Reason string
	// Start is the time at which the job started, or is expected to start; empty if unknown.
	Start string
	// Nodes is Slurm's list of the job's nodes; empty before it starts.
	Nodes   string
	Comment string
}

// queueFormat is the format of the lines that parseQueue reads. The comment is last, because it may contain anything.
const queueFormat = "%i|%T|%r|%S|%N|%k"

// parseQueue reads the output of squeue, by the id of the job. It skips lines that it does not understand, because
// another version of Slurm may add some. The parts of a heterogeneous job are one job.
func parseQueue(text string) map[string]Job {
	const fields = 6
	jobs := map[string]Job{}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimRight(line, "\r\n"), "|", fields)
		if len(f) != fields {
			continue
		}
		id, _, _ := strings.Cut(strings.TrimSpace(f[0]), "+")
		if id == "" || strings.Trim(id, "0123456789") != "" {
			continue // an array or a message
		}
		j := Job{ID: id, State: strings.TrimSpace(f[1]), Reason: given(f[2]), Start: given(f[3]), Nodes: given(f[4]), Comment: strings.TrimSpace(f[5])}
		if before, known := jobs[id]; known {
			j = before.with(j)
		}
		jobs[id] = j
	}
	return jobs
}

// given returns a value of Slurm's, or "" if it stands for no value.
func given(text string) string {
	switch text = strings.TrimSpace(text); text {
	case "None", "(null)", "N/A", "n/a", "Unknown":
		return ""
	}
	return text
}

// with returns a heterogeneous job whose parts are j and the job part. A part that has not ended decides the state, then
// one that has failed.
func (j Job) with(part Job) Job {
	rank := func(j Job) int {
		switch {
		case j.Held():
			return 0
		case !j.Ended():
			return 1
		case j.State != "COMPLETED":
			return 2
		}
		return 3
	}
	worse, other := j, part
	if rank(part) < rank(j) {
		worse, other = part, j
	}
	if worse.Nodes != "" && other.Nodes != "" {
		worse.Nodes += "," + other.Nodes
	}
	return worse
}

// Held reports whether the job waits for its start.
func (j Job) Held() bool {
	switch j.State {
	case "PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD":
		return true
	}
	return false
}

// Ended reports whether the job has ended. States that this program does not know count as running.
func (j Job) Ended() bool {
	_, ended := j.end()
	return ended
}

// end returns the reason for an attempt whose job has ended without exit files.
func (j Job) end() (reason executor.Reason, ended bool) {
	switch j.State {
	case "BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "CANCELLED", "REVOKED", "FAILED", "COMPLETED", "SPECIAL_EXIT", "LAUNCH_FAILED", "RECONFIG_FAIL":
		return executor.ReasonLost, true
	case "TIMEOUT", "DEADLINE":
		return executor.ReasonDeadline, true
	case "OUT_OF_MEMORY":
		return executor.ReasonOOM, true
	}
	return "", false
}

// infrastructure reports whether the job has ended because of the cluster, and not of its command.
func (j Job) infrastructure() bool {
	switch j.State {
	case "BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL":
		return true
	}
	return false
}

// detail describes in words a job that has started, or is empty for one that runs as usual.
func (j Job) detail() string {
	switch j.State {
	case "SUSPENDED", "STOPPED":
		return "suspended by Slurm"
	case "CONFIGURING":
		return "Slurm prepares the nodes"
	}
	return ""
}

// waits describes the wait of a held job in words, such as its expected start.
func (j Job) waits() string {
	if j.Start == "" {
		return ""
	}
	return "Slurm expects to start it at " + j.Start
}

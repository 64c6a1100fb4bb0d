package command

import (
	"slices"
	"time"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

func queueKind() kind {
	return kind{one: "job", many: "queued jobs", path: "/api/cluster/queue", columns: []output.Column{
		{Name: "position", Right: true, As: queuePosition},
		{Name: "job", Path: "job_id"},
		{Name: "name"},
		{Name: "pools"},
		{Name: "nodes", Right: true, Wide: true},
		{Name: "gpus", Right: true},
		{Name: "priority", Right: true},
		{Name: "waits", Path: "since", Right: true, As: output.Age},
		{Name: "reason", As: queueReason},
		{Name: "detail", Path: "reason_detail"},
	}}
}

// queuePosition formats the position of a job in the queue. A job that the scheduler does not consider has none.
func queuePosition(value any, now time.Time) string {
	if text := output.Text(value, now); text != "0" {
		return text
	}
	return "-"
}

// ownReasons returns the reasons of Signalbox for which a job waits. All others are those of Slurm.
func ownReasons() []string {
	return []string{"new", "account_quota", "team_quota", "pool_capacity", "isolation", "priority", "backoff"}
}

// heldBySlurm reports whether the reason for which a job waits is one of Slurm.
func heldBySlurm(reason string) bool { return reason != "" && !slices.Contains(ownReasons(), reason) }

// queueReason formats the reason for which a job waits.
func queueReason(value any, now time.Time) string {
	reason := output.Text(value, now)
	if heldBySlurm(reason) {
		return "Slurm: " + reason
	}
	return reason
}

// waiting formats why a job waits: the reason and, if there is one, its detail.
func waiting(value any, now time.Time) string {
	queue, ok := value.(map[string]any)
	if !ok {
		return output.Text(value, now)
	}
	return whyWaits(output.Text(queue["reason"], now), output.Text(queue["reason_detail"], now))
}

// whyWaits returns why a job waits.
func whyWaits(reason, detail string) string {
	why := queueReason(reason, time.Time{})
	switch {
	case detail == "":
		return why
	case heldBySlurm(reason):
		return why + "; " + detail
	}
	return why + ": " + detail
}

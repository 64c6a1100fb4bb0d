// Package jobapi implements JobService: it admits submissions, returns and changes jobs, and streams their changes.
//
// It promises:
//   - A job that the caller may not see looks like one that does not exist. A caller who may see a job but not change
//     it is refused.
//   - A response sets every field that applies to the job.
//   - A submission that passes every gate (package admission) is stored as a job, a run, an event and an audit
//     record in one transaction. A submission that is refused or fails leaves nothing behind.
//   - A repeated request with the same Idempotency-Key gets the first response.
//   - A table that a client builds from WatchJobs equals the list that ListJobs returns, on any replica.
//   - A watch that is resumed on any replica sends the same changes under the same numbers, each once and in order,
//     up to the change that ended the job.
//
// admit.go runs the gates and stores the job; lookups_proto.go implements the lookups of the gates; retry.go submits the
// spec of an existing job; watch.go streams one job, and watch_table.go many. jobapi.go does no I/O and defines which
// fields of a job can be changed.
package jobapi

import (
	"maps"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// Changes are the requested changes of a job. A nil field is not changed.
type Changes struct {
	Name                        *string
	Labels                      map[string]string // an empty value removes the label
	Priority                    *int
	RunningS, StartingS, QueueS *int
	// AllowLower permits lower limits. AllowUrgent permits a priority above the default.
	AllowLower, AllowUrgent bool
}

const maxLabels = 64

// Apply changes the job. Changing the priority or the limits of an ended job is a conflict. A priority that was granted
// before may be kept and lowered by anyone who may change the job.
func (c *Changes) Apply(j *job.Job) error {
	if j.State.Terminal() && (c.Priority != nil || c.limits()) {
		return fault.New(fault.Conflict, "job_ended", "job %s has already ended: it is %s", j.ID, j.State)
	}
	if c.Name != nil {
		j.Name = *c.Name
	}
	if c.Priority != nil {
		if *c.Priority > max(j.Priority, jobspec.DefaultPriority) && !c.AllowUrgent {
			return fault.New(fault.Forbidden, "priority", "priority %d is above the default of %d; only owners of project %s and admins may set it",
				*c.Priority, jobspec.DefaultPriority, j.Project)
		}
		j.Priority = *c.Priority
	}
	for _, l := range []struct {
		name string
		into *int
		to   *int
	}{{"running_s", &j.RunningS, c.RunningS}, {"starting_s", &j.StartingS, c.StartingS}, {"queued_s", &j.QueueS, c.QueueS}} {
		if l.to == nil {
			continue
		}
		if *l.to < *l.into && !c.AllowLower {
			return fault.New(fault.Forbidden, "limits", "limits: %s is %d; only an admin may lower it", l.name, *l.into)
		}
		*l.into = *l.to
	}
	return c.label(j)
}

func (c *Changes) limits() bool { return c.RunningS != nil || c.StartingS != nil || c.QueueS != nil }

func (c *Changes) label(j *job.Job) error {
	labels := maps.Clone(j.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, c.Labels)
	maps.DeleteFunc(labels, func(name, value string) bool { return value == "" && c.removes(name) })
	if len(labels) > maxLabels {
		return fault.InvalidFields(fault.At(fault.TypeValue, "A job can have at most 64 labels", "labels"))
	}
	j.Labels = labels
	return nil
}

func (c *Changes) removes(name string) bool {
	value, named := c.Labels[name]
	return named && value == ""
}

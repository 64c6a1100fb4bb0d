// Package desk is where people ask for jobs: it answers JobService, judging the caller, handing what is asked
// to who does it, and showing jobs as the contract has them.
//
// It promises that who may not see a job is told what is told of one that is not there, that who sees it and may
// not change it is refused, and that no field of the contract is forgotten. desk.go is pure and says what may be
// changed of a job; server*.go and desk_proto.go alone speak proto.
package desk

import (
	"maps"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Changes are what may be changed of a job; what is nil stays.
type Changes struct {
	Name                        *string
	Labels                      map[string]string // an empty value takes the label away
	Priority                    *int
	RunningS, StartingS, QueueS *int
	// Lowers says that limits may go down.
	Lowers bool
}

const maxLabels = 64

// Apply changes the job. What moves it in the queue or through its limits is a conflict once it has ended.
func (c *Changes) Apply(j *job.Job) error {
	if j.State.Terminal() && (c.Priority != nil || c.limits()) {
		return fault.New(fault.Conflict, "job_ended", "job %s has ended already: it is %s", j.ID, j.State)
	}
	if c.Name != nil {
		j.Name = *c.Name
	}
	if c.Priority != nil {
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
		if *l.to < *l.into && !c.Lowers {
			return fault.New(fault.Forbidden, "limits", "limits: %s is %d, and only an admin lowers it", l.name, *l.into)
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
	maps.DeleteFunc(labels, func(name, value string) bool { return value == "" && c.takesAway(name) })
	if len(labels) > maxLabels {
		return fault.InvalidFields(fault.At(fault.TypeValue, "A job has at most 64 labels", "labels"))
	}
	j.Labels = labels
	return nil
}

func (c *Changes) takesAway(name string) bool {
	value, named := c.Labels[name]
	return named && value == ""
}

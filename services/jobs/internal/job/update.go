package job

import (
	"maps"

	"github.com/signalbox-dev/signalbox/platform/fault"
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
func (c *Changes) Apply(j *Job) error {
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

func (c *Changes) label(j *Job) error {
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

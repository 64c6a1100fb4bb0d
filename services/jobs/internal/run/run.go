// Package run owns runs, the permanent records of jobs. A run copies what it needs from its job, so it outlives
// the job.
package run

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Run is the record of all attempts of a job.
type Run struct {
	ID                             string
	JobID                          *string
	Name, OwnerID, OwnerName       string
	ProjectID, Project, Visibility string
	VisibilityVersion              int64 // the version of Visibility
	State                          string
	Attempts                       int
	RecipeLock, Bindings           []byte
	RecipeDigest, SpecDigest       string
	EndReason                      string
	CreatedAt                      time.Time
	StartedAt, EndedAt             *time.Time
	Parents                        []job.Parent
}

// KindOfID returns the kind of the id by which a run was requested: "run" or "job".
func KindOfID(name string) string {
	if id.Check(id.Job, name) == nil {
		return "job"
	}
	return "run"
}

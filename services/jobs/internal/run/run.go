// Package run owns runs: what is kept of a job's work for good. A run repeats what it must tell, so
// that it outlives its job.
package run

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Run is what a job produced, or is producing.
type Run struct {
	ID                             string
	JobID                          *string
	Name, OwnerID, OwnerName       string
	ProjectID, Project, Visibility string
	VisibilityVersion              int64 // of its project
	State                          string
	Attempts                       int
	RecipeLock, Bindings           []byte
	RecipeDigest, SpecDigest       string
	EndReason                      string
	CreatedAt                      time.Time
	StartedAt, EndedAt             *time.Time
	Parents                        []job.Parent
}

// Thing is what an id names that a run is asked for by: the run, or its job.
func Thing(name string) string {
	if id.Check(id.Job, name) == nil {
		return "job"
	}
	return "run"
}

// Package reporting owns how trainings report. Ingest tokens: one is minted while an attempt prepares, or when a user
// creates a run without a job; it is valid for 30 days and for one run. Each work item and each run without a job has at
// most one valid token. Only the SHA-256 hash of a token is stored. Runs without a job end by their reports, or when they
// are silent for longer than their owner allows. The package also implements the RPCs by which ingest resolves tokens and
// passes on reports.
package reporting

import (
	"time"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// Lifetime is how long an ingest token is valid.
const Lifetime = 30 * 24 * time.Hour

// Grant describes the attempt and the run to which a token gives access.
type Grant struct {
	JobID     string
	RunID     string
	Attempt   int
	Current   bool // the attempt is the job's newest, and has not ended unless the job has
	Container bool // the attempt runs on a fleet of kind kubernetes or slurm
	// ResumeStep is the step of the checkpoint with which the attempt was started, or nil.
	ResumeStep *int64
	Withhold   bool // the run is protected
	// Disclosure is what a protected run may report. It is nil for other runs and for runs that may report nothing.
	Disclosure *jobspec.Disclosure
	// Goals has "minimize" or "maximize" for the metrics whose best values the recipe states.
	Goals map[string]string
	// Checkpoints states which checkpoints are kept. It is nil for a run without a job.
	Checkpoints *jobspec.Checkpoint
	EndedAt     *time.Time // when the run ended, nil if it has not ended
	ExpiresAt   time.Time
	// The owner, project and visibility of the run.
	OwnerID, ProjectID, Project, Visibility string
	VisibilityVersion                       int64
}

// Package ingesttoken owns the ingest tokens of attempts. A token is minted while an attempt prepares. It is valid
// for 30 days and for one run. Each work item has at most one valid token. Only the SHA-256 hash of a token is
// stored.
package ingesttoken

import "time"

// Lifetime is how long an ingest token is valid.
const Lifetime = 30 * 24 * time.Hour

// Grant describes the attempt and the run to which a token gives access.
type Grant struct {
	JobID     string
	RunID     string
	Attempt   int
	Current   bool       // the attempt is the job's newest
	Container bool       // the attempt runs on a fleet of kind kubernetes or slurm
	Withhold  bool       // the run reads a protected dataset
	EndedAt   *time.Time // when the run ended, nil if it has not ended
	ExpiresAt time.Time
	// The owner, project and visibility of the run.
	OwnerID, ProjectID, Project, Visibility string
	VisibilityVersion                       int64
}

// Package ingesttoken owns the ingest tokens of attempts. A token is minted while an attempt prepares. Each work item
// has at most one live token. Only its SHA-256 hash is stored. It is valid for 30 days and for one run.
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
	Container bool       // it runs in a container or batch fleet
	Withhold  bool       // the run reads a protected dataset
	EndedAt   *time.Time // when the run ended, nil while it is live
	ExpiresAt time.Time
	// The owner, project and visibility of the run.
	OwnerID, ProjectID, Project, Visibility string
	VisibilityVersion                       int64
}

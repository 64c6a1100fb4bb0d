// Package token owns the ingest tokens of attempts: minted while an attempt prepares, one live one a
// work, stored as SHA-256 only, and good for 30 days of reports of their one run.
package token

import "time"

// Lifetime of an ingest token.
const Lifetime = 30 * 24 * time.Hour

// Grant is what a token opens.
type Grant struct {
	JobID     string
	RunID     string
	Attempt   int
	Current   bool       // the attempt is the job's newest
	Container bool       // its executor is a container one
	Withhold  bool       // the run reads a protected dataset
	EndedAt   *time.Time // of the run
	ExpiresAt time.Time
	// Whose the run is.
	OwnerID, ProjectID, Project, Visibility string
	VisibilityVersion                       int64
}

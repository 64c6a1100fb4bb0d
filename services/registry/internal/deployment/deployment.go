// Package deployment owns deployments and every change of them: their stable address, their revisions and the tokens of
// their callers. Each change is written in one transaction with its event and audit row. A candidate never affects
// traffic. A promotion switches traffic by changing one row. Every change that inference must see raises the snapshot
// epoch in the same transaction.
//
// Packages revision and deploytoken own the rows of revisions and tokens. changes.go, observe.go, promote.go and
// lifecycle.go contain the operations, and server*.go implement the RPCs. Only store.go contains SQL.
package deployment

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// SubjectKind is what events, audit entries and errors call a deployment.
const SubjectKind = "deployment"

// StateServing and StateSuspended are the states of a deployment.
const (
	StateServing   = "serving"
	StateSuspended = "suspended"
)

// ModeDrain and ModeCut are the modes of a suspension. With ModeDrain, running calls may finish; with ModeCut, they are
// ended.
const (
	ModeDrain = "drain"
	ModeCut   = "cut"
)

// Deployment is a stable address that serves the promoted revision.
type Deployment struct {
	access.Owner

	ID          string
	Name        string
	Description string
	State       string
	PromotedID  *string `db:"promoted_revision_id"`
	PreviousID  *string `db:"previous_revision_id"`
	// PromotedNumber is the number of the promoted revision.
	PromotedNumber *int32
	// PendingID is the revision that is promoted as soon as it is ready.
	PendingID     *string `db:"pending_revision_id"`
	PendingNumber *int32
	SuspendMode   *string
	SuspendedAt   *time.Time
	// Version is incremented by every change.
	Version   int64 `db:"row_version"`
	CreatedAt time.Time
}

// Cut reports whether the deployment is suspended with ModeCut, which ends running calls.
func (d *Deployment) Cut() bool {
	return d.State == StateSuspended && d.SuspendMode != nil && *d.SuspendMode == ModeCut
}

// promoted reports whether the revision is the promoted one.
func (d *Deployment) promoted(revisionID string) bool {
	return d.PromotedID != nil && *d.PromotedID == revisionID
}

// pending reports whether the revision is promoted as soon as it is ready.
func (d *Deployment) pending(revisionID string) bool {
	return d.PendingID != nil && *d.PendingID == revisionID
}

// notReady returns the error for a revision that cannot be promoted, with the reason.
func notReady(r *revision.Revision) error {
	why := string(r.State)
	if r.Reason != nil {
		why = r.Reason.Text()
	}
	return fault.New(fault.Conflict, "revision_not_ready", "revision %d is not ready: %s", r.Number, why)
}

// Package deployment owns deployments and every change of them: their stable address, their revisions and the tokens of
// their callers. Each change is written in one transaction with its event and audit row. A candidate never affects
// traffic. A promotion switches traffic by changing one row. Every change that the inference service must see raises
// the snapshot epoch in the same transaction.
//
// Packages revision and deploytoken own the rows of revisions and tokens. The files changes.go, observe.go, promote.go
// and lifecycle.go contain the operations, and server*.go implement the RPCs. Only store.go contains SQL.
package deployment

import (
	"slices"
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
	// PreviousID is the revision to which a rollback returns.
	PreviousID *string `db:"previous_revision_id"`
	// FormerIDs are the revisions to which further rollbacks return, the latest last. Read them with the method history:
	// older versions of the registry update only PreviousID.
	FormerIDs []string `db:"former_revision_ids"`
	// PromotedNumber, PromotedState and PromotedReason describe the promoted revision.
	PromotedNumber *int32
	PromotedState  *revision.State
	PromotedReason *revision.Reason
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

// pending reports whether the revision is the one that is promoted as soon as it is ready.
func (d *Deployment) pending(revisionID string) bool {
	return d.PendingID != nil && *d.PendingID == revisionID
}

// maxFormer is the maximum number of revisions that a deployment remembers for rollbacks.
const maxFormer = 100

// history returns the revisions to which rollbacks return, the latest last.
func (d *Deployment) history() []string {
	n := len(d.FormerIDs)
	switch {
	case d.PreviousID == nil:
		return nil
	case n == 0 || d.FormerIDs[n-1] != *d.PreviousID:
		return []string{*d.PreviousID}
	}
	return d.FormerIDs
}

// historyAfter returns the history after the promotion of a revision. A rollback shortens the history, so that the next
// rollback goes further back instead of forward again.
func (d *Deployment) historyAfter(revisionID string, rollback bool) []string {
	former := d.history()
	for i := len(former) - 1; i >= 0 && rollback; i-- {
		if former[i] == revisionID {
			return former[:i]
		}
	}
	if d.PromotedID == nil {
		return former
	}
	former = append(slices.Clone(former), *d.PromotedID)
	return former[max(0, len(former)-maxFormer):]
}

// readiness returns whether the deployment serves calls and, if not, the reason. Callers of the deployment receive the
// same codes.
func (d *Deployment) readiness() (ready bool, why *revision.Reason) {
	switch {
	case d.State == StateSuspended:
		return false, &revision.Reason{Phase: SubjectKind, Code: "deployment_suspended", Message: "the deployment is suspended; resume it to serve calls"}
	case d.PromotedState == nil:
		return false, &revision.Reason{Phase: SubjectKind, Code: "no_ready_revision", Message: "no revision is promoted; promote one that is ready"}
	case *d.PromotedState == revision.Ready:
		return true, nil
	case d.PromotedReason == nil:
		return false, &revision.Reason{Phase: string(*d.PromotedState), Message: "the promoted revision is " + string(*d.PromotedState)}
	}
	return false, d.PromotedReason
}

// notReady returns the error for a revision that cannot be promoted, with the reason.
func notReady(r *revision.Revision) error {
	why := string(r.State)
	if r.Reason != nil {
		why = r.Reason.Text()
	}
	return fault.New(fault.Conflict, "revision_not_ready", "revision %d is not ready: %s", r.Number, why)
}

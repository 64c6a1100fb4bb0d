// Package deployment keeps what serves: deployments with their stable address, and every change of them,
// their revisions and the tokens of their callers, whole with its event and audit row. A candidate never
// touches traffic; promotion moves one row; every change that inference must see raises the snapshot epoch
// in its own transaction.
//
// The rows of candidates and of tokens are packages revision and token. book.go, observe.go, promote.go
// and life.go are the deeds; server*.go answer calls; store.go alone speaks SQL.
package deployment

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// SubjectKind names deployments in events, audit and errors.
const SubjectKind = "deployment"

// StateServing and StateSuspended are the states of a deployment.
const (
	StateServing   = "serving"
	StateSuspended = "suspended"
)

// ModeDrain and ModeCut are what becomes of the calls that run when a deployment is suspended.
const (
	ModeDrain = "drain"
	ModeCut   = "cut"
)

// Deployment is a stable address for the revision that is promoted.
type Deployment struct {
	own.Owner

	ID          string
	Name        string
	Description string
	State       string
	PromotedID  *string
	PreviousID  *string
	// PromotedNumber is the promoted revision's.
	PromotedNumber *int32
	// PendingID is the revision that takes over when it is ready.
	PendingID     *string
	PendingNumber *int32
	SuspendMode   *string
	SuspendedAt   *time.Time
	// Version is raised with every change.
	Version   int64
	CreatedAt time.Time
}

// Cut says whether calls that run are ended.
func (d *Deployment) Cut() bool {
	return d.State == StateSuspended && d.SuspendMode != nil && *d.SuspendMode == ModeCut
}

// promoted says whether the revision is the one that answers.
func (d *Deployment) promoted(revisionID string) bool {
	return d.PromotedID != nil && *d.PromotedID == revisionID
}

// pending says whether the revision takes over when it is ready.
func (d *Deployment) pending(revisionID string) bool {
	return d.PendingID != nil && *d.PendingID == revisionID
}

// notReady is the refusal to promote, with the reason in words.
func notReady(r *revision.Revision) error {
	why := string(r.State)
	if r.Reason != nil {
		why = r.Reason.Text()
	}
	return fault.New(fault.Conflict, "revision_not_ready", "revision %d is not ready: %s", r.Number, why)
}

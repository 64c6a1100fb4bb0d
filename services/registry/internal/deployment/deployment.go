// Package deployment keeps what serves: deployments with their stable address, revisions as candidates
// and as what is promoted, and the tokens of callers. A candidate never touches traffic; promotion moves
// one row; every change that inference must see raises the snapshot epoch in its own transaction.
package deployment

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
)

// SubjectKind names deployments in events, audit and errors; the other two their parts.
const (
	SubjectKind  = "deployment"
	RevisionKind = "revision"
	TokenKind    = "deployment token"
)

// StateServing and StateSuspended are the states of a deployment.
const (
	StateServing   = "serving"
	StateSuspended = "suspended"
)

// Deployment is a stable address for the revision that is promoted.
type Deployment struct {
	own.Owner

	ID         string
	Name       string
	State      string
	PromotedID *string
	PreviousID *string
	// PromotedNumber is the promoted revision's.
	PromotedNumber *int32
	CreatedAt      time.Time
}

// promoted says whether the revision is the one that answers.
func (d *Deployment) promoted(revisionID string) bool {
	return d.PromotedID != nil && *d.PromotedID == revisionID
}

// Token is one caller's credential, as far as it is stored.
type Token struct {
	ID           string
	DeploymentID string
	Name         string
	Prefix       string
	Hash         []byte
	CreatedAt    time.Time
	RevokedAt    *time.Time
	// RevokedEpoch is from which snapshot on the token is dead.
	RevokedEpoch *int64
}

// prefixLength is how much of a token is shown to recognise it by.
const prefixLength = 8

// notReady is the refusal to promote, with the reason in words.
func notReady(r *Revision) error {
	why := string(r.State)
	if r.Reason != nil {
		why = r.Reason.Text()
	}
	return fault.New(fault.Conflict, "revision_not_ready", "revision %d is not ready: %s", r.Number, why)
}

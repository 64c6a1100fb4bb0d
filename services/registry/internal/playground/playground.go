// Package playground owns the sessions in which users try models out. A session has one engine for each target, for a
// limited time. It has no token and no stable address. It ends at its expiry, when it receives no call for its idle
// timeout, when a user stops it, or when a target cannot serve. An ended session stays readable for 30 days.
//
// A call after the end of a session is rejected with an error that states when the session ended, even if the end is
// not stored yet. The executor knows the deadline of an engine and ends the engine without an order. Each end is
// recorded once, with its event. The engines are revisions that belong to a session instead of a deployment. Package
// revision owns their state.
//
// The file changes.go contains the operations, and server*.go implement the RPCs. Only store.go contains SQL.
package playground

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// SubjectKind is what events, audit entries and errors call a session.
const SubjectKind = "playground session"

// The states of a session. The first ones are stored; the others are derived from the engines of a live session.
const (
	stateLive    = "live"
	stateExpired = "expired"
	stateStopped = "stopped"
	stateFailed  = "failed"

	stateQueued   = "queued"
	stateStarting = "starting"
	stateReady    = "ready"
)

// The reasons why a session expired.
const (
	reasonTime = "time"
	reasonIdle = "idle"
)

const (
	defaultTTL  = 30 * time.Minute
	maxTTL      = 4 * time.Hour
	defaultIdle = 10 * time.Minute
	// maxLive is the maximum number of live sessions of a user.
	maxLive = 16
)

// Session is a playground session.
type Session struct {
	access.Owner

	ID           string
	Title        string
	State        string
	Reason       string
	Idle         time.Duration `db:"-"`
	CreatedAt    time.Time
	ExpiresAt    time.Time
	LastActivity time.Time `db:"last_activity_at"`
	EndedAt      *time.Time
}

// overAt returns the time at which a live session ends if it gets no further calls, and the reason.
func (s *Session) overAt() (time.Time, string) {
	if idle := s.LastActivity.Add(s.Idle); idle.Before(s.ExpiresAt) {
		return idle, reasonIdle
	}
	return s.ExpiresAt, reasonTime
}

// ended returns the error for a call to a session that is over, or nil if the session is live.
func (s *Session) ended(now time.Time) error {
	at, verb := s.EndedAt, map[string]string{stateExpired: "expired", stateStopped: "was stopped", stateFailed: "failed"}[s.State]
	if s.State == stateLive {
		over, _ := s.overAt()
		if now.Before(over) {
			return nil
		}
		at, verb = &over, "expired"
	}
	return fault.New(fault.Conflict, "session_over", "%s %s %s at %s", SubjectKind, s.ID, verb, at.UTC().Format("2006-01-02T15:04:05.000000-07:00"))
}

// standing returns the state of a session as the API shows it.
func (s *Session) standing(targets []*revision.Revision) string {
	if s.State != stateLive {
		return s.State
	}
	ready, pending := 0, 0
	for _, r := range targets {
		switch r.State {
		case revision.Ready:
			ready++
		case revision.Pending:
			pending++
		case revision.Preparing, revision.Starting, revision.Probing, revision.NotReady, revision.Failed, revision.Stopped:
		}
	}
	switch {
	case ready == len(targets):
		return stateReady
	case ready+pending == len(targets) && pending > 0:
		return stateQueued
	}
	return stateStarting
}

// Package playground keeps the sessions in which people try models out: an engine for each target, for a while. A
// session has no token and no stable address; it ends at its time, when nobody called it for a while, when its
// owner ends it, or when a target cannot serve. What ended stays to be read for a month.
//
// It promises that a call after the end is refused with the time of the end, whatever the loops are doing; that the
// executor knows the time too, and keeps to it on its own; and that each end is told once, with its event. The
// engines are revisions that a session holds in place of a deployment: what is known of them is package revision's.
//
// book.go are the deeds; server*.go answer calls; store.go alone speaks SQL.
package playground

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/own"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

// SubjectKind names sessions in events, audit and errors.
const SubjectKind = "playground session"

// The states of a session that are stored, and those that follow from its engines while it is live.
const (
	stateLive    = "live"
	stateExpired = "expired"
	stateStopped = "stopped"
	stateFailed  = "failed"

	stateQueued   = "queued"
	stateStarting = "starting"
	stateReady    = "ready"
)

// Why a session expired.
const (
	reasonTime = "time"
	reasonIdle = "idle"
)

const (
	defaultTTL  = 30 * time.Minute
	maxTTL      = 4 * time.Hour
	defaultIdle = 10 * time.Minute
	// maxLive bounds the live sessions of a person.
	maxLive = 16
	// retention is how long a session that has ended can be read.
	retention = 30 * 24 * time.Hour
)

// Session is one.
type Session struct {
	own.Owner

	ID           string
	Title        string
	State        string
	Reason       string
	Idle         time.Duration
	CreatedAt    time.Time
	ExpiresAt    time.Time
	LastActivity time.Time
	EndedAt      *time.Time
}

// overAt is when a live session ends if nothing happens, and why.
func (s *Session) overAt() (time.Time, string) {
	if idle := s.LastActivity.Add(s.Idle); idle.Before(s.ExpiresAt) {
		return idle, reasonIdle
	}
	return s.ExpiresAt, reasonTime
}

// ended is the refusal of what a session can take no more; nil while it can.
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

// standing is a session's state as it is shown.
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

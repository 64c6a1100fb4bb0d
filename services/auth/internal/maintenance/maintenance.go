// Package maintenance owns the mode of the installation: whether its API serves requests, or rejects all requests other
// than those of the routes marked in_maintenance. It promises that a change is in effect on every replica when the call
// that made it returns; that the mode survives restarts; and that an admin can always end maintenance. Each check of a
// caller reads the mode from the database. Gateways cache the responses to these checks: a change of the mode raises the
// epoch of callers (package session), and the service waits until each gateway has dropped its cache. A gateway without a
// lease reuses the response to an anonymous caller for authn.AnonymousLife, so a call that begins maintenance returns only
// after that time.
package maintenance

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Mode states whether the installation serves requests.
type Mode string

// The modes.
const (
	Off Mode = "off"
	On  Mode = "maintenance"
)

// plain is the message of a rejected request if the admin gave none.
const plain = "the installation is in maintenance"

// A rejected request gets a Retry-After: the time until the announced end, but at least minRetry and at most
// maxRetry. If no end is announced, or the end has passed, the value is the constant retry.
const (
	retry    = time.Minute
	minRetry = time.Second
	maxRetry = time.Hour
)

// subject is the target of this package's audit rows and events.
const subject = "installation"

// State is the mode with its announcement.
type State struct {
	Mode Mode
	// Message and Until are empty while the mode is Off.
	Message string
	Until   *time.Time
	// ChangedAt is nil if the mode was never changed.
	ChangedAt     *time.Time
	ChangedBy     string
	ChangedByName string
}

// Err returns the error for a request at the time now, or nil if the mode is Off.
func (s State) Err(now time.Time) error {
	if s.Mode == Off {
		return nil
	}
	wait := retry
	if s.Until != nil && s.Until.After(now) {
		wait = min(max(s.Until.Sub(now), minRetry), maxRetry)
	}
	return fault.New(fault.Unavailable, fault.CodeMaintenance, "%s", s.Message).WithRetryAfter(wait)
}

// shown returns the fields of a state that are written to the audit log.
func (s State) shown() map[string]any {
	return map[string]any{"mode": s.Mode, "message": s.Message, "until": s.Until}
}

// Package maintenance owns the mode of the installation: whether its API serves requests or rejects all of them. It
// promises that a change is effective on every replica once it is acknowledged; that the mode survives restarts; and that
// an admin can always end maintenance. Each check of a caller reads the row. A gateway uses the result for anonymous
// callers for authn.AnonymousLife, so maintenance is acknowledged only after that time.
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

// plain is the message of rejections if the admin gave none.
const plain = "the installation is in maintenance"

// Bounds of the Retry-After of a rejected request: the time until the announced end, at least minRetry and at most
// maxRetry; retry if no end is announced or it has passed.
const (
	retry    = time.Minute
	minRetry = time.Second
	maxRetry = time.Hour
)

// subject is the target of the audit rows and the events.
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

// Err returns the error for a request at the time now, or nil if it is served.
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

// shown returns the audit form of a state.
func (s State) shown() map[string]any {
	return map[string]any{"mode": s.Mode, "message": s.Message, "until": s.Until}
}

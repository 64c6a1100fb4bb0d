// Package maintenance owns the mode of the installation: whether its API serves or refuses everybody. It
// promises that once a change is answered no replica judges a request by the former mode (whoever asks is
// answered from the row), that the mode outlives every process, and that an admin can always end it.
package maintenance

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Mode is whether the installation serves.
type Mode string

// The modes.
const (
	Off Mode = "off"
	On  Mode = "maintenance"
)

// plain is what refusals say where nobody gave words.
const plain = "The installation is in maintenance"

// How long a refused client is told to wait: until the announced end, within these bounds; retry where no end
// is announced or it has passed.
const (
	retry    = time.Minute
	minRetry = time.Second
	maxRetry = time.Hour
)

// subject is what the audit and the events are about.
const subject = "installation"

// State is the mode and what is told of it.
type State struct {
	Mode Mode
	// Message and Until are empty while the mode is Off.
	Message string
	Until   *time.Time
	// ChangedAt is nil where the mode was never changed.
	ChangedAt     *time.Time
	ChangedBy     string
	ChangedByName string
}

// Refusal is what a request is told, nil where it is served.
func (s State) Refusal(now time.Time) error {
	if s.Mode == Off {
		return nil
	}
	wait := retry
	if s.Until != nil && s.Until.After(now) {
		wait = min(max(s.Until.Sub(now), minRetry), maxRetry)
	}
	return fault.New(fault.Unavailable, fault.CodeMaintenance, "%s", s.Message).WithRetryAfter(wait)
}

// shown is what the audit tells of a state.
func (s State) shown() map[string]any {
	return map[string]any{"mode": s.Mode, "message": s.Message, "until": s.Until}
}

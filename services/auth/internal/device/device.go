// Package device implements the device flow of RFC 8628, in which a user signs a device in with a browser. It
// serves the JSON routes and the form endpoints of the authorization server.
//
// It promises:
//   - a code gives one token, even if several polls arrive at the same time after the approval;
//   - the token goes only to the client and the address that began the flow, and only if the user who approved the
//     request may still sign in;
//   - a request is decided once, by POST; viewing a request does not change it;
//   - polls, new flows and guesses are counted in Postgres, across all replicas.
package device

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// The client that uses the JSON routes.
const (
	ClientID   = "signalbox-cli"
	ClientName = "Signalbox CLI"
)

const (
	// TTL is how long both codes are valid.
	TTL = 15 * time.Minute
	// Interval is the minimum time between two polls.
	Interval = 5 * time.Second
	// IntervalStep is added to the interval by each poll that comes too early.
	IntervalStep = 5 * time.Second
	// leeway is how much earlier than allowed a poll may come, because the timers of clients and the clocks of
	// replicas are not exact.
	leeway = 500 * time.Millisecond
)

// The maximum numbers of pending flows per address and in total. The limit on the total also limits the probability
// that a guessed user code belongs to a pending flow.
const (
	openOfAddress = 100
	openInAll     = 10000
)

// The states of a flow.
const (
	StatePending  = "pending"
	StateApproved = "approved"
	StateDenied   = "denied"
	stateUsed     = "used"
)

// Start is the request of a device that begins a flow.
type Start struct{ ClientID, ClientName, Address string }

// Codes are the codes of a new flow.
type Codes struct {
	Device secret.String
	// User is the code as users read it: `WDJB-MJHT`.
	User string
	TTL  time.Duration
	// Interval is the minimum time between two polls.
	Interval time.Duration
}

// Poll is a request for the token.
type Poll struct {
	Code              secret.String
	ClientID, Address string
}

// Token is the access token of an approved device.
type Token struct {
	Access  secret.String
	Expires time.Duration
}

// Request is a flow as shown to the user who decides on it.
type Request struct {
	ID            string
	UserCode      string
	ClientName    string
	ClientAddress string
	CreatedAt     time.Time
	ExpiresAt     time.Time
	State         string
}

// refused returns an error with a code of RFC 8628 3.5 or RFC 6749 5.2, such as `slow_down`.
func refused(word string) *fault.Error {
	return fault.New(fault.Refused, "", "%s", word).WithOAuth(word)
}

// The error codes of RFC 8628 and RFC 6749 that the flow returns.
const (
	wordPending = "authorization_pending"
	wordSlow    = "slow_down"
	wordDenied  = "access_denied"
	wordExpired = "expired_token"
	wordGrant   = "invalid_grant"
	wordBusy    = "temporarily_unavailable"
)

// Package device signs devices in by a person's browser: the device flow of RFC 8628, for its JSON routes
// and for the forms of the authorization server.
//
// It promises:
//   - a code gives one token, once, to the client and from the address that began the flow, and only while
//     the person who approved it may still sign in; of polls that race after an approval one gets the token;
//   - a person's decision is taken once, by POST; looking at a request changes nothing of it;
//   - polls, beginnings and guesses are counted in Postgres, over all replicas.
package device

import (
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// The client of the JSON routes.
const (
	ClientID   = "signalbox-cli"
	ClientName = "Signalbox CLI"
)

const (
	// TTL is how long both codes hold.
	TTL = 15 * time.Minute
	// Interval is the least time between two polls.
	Interval = 5 * time.Second
	// Slower is what each poll that comes too early adds to it.
	Slower = 5 * time.Second
	// leeway is how much too early a poll may be: timers of clients and clocks of replicas are not exact.
	leeway = 500 * time.Millisecond
	// kept is how long a flow that ended can still be told apart from one that never was.
	kept = time.Hour
)

// The most flows that wait for a person at a time: of one address, and of all. The second also bounds how
// likely a guess is to hit any.
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

// Start is what a device asks with.
type Start struct{ ClientID, ClientName, Address string }

// Codes are what it gets.
type Codes struct {
	Device secret.String
	// User is the code as people read it: `WDJB-MJHT`.
	User string
	TTL  time.Duration
	// Interval is the least time between two polls.
	Interval time.Duration
}

// Poll is one question for the token.
type Poll struct {
	Code              secret.String
	ClientID, Address string
}

// Token is the access token of an approved device.
type Token struct {
	Access  secret.String
	Expires time.Duration
}

// Request is a flow as the person sees it who is asked.
type Request struct {
	ID            string
	UserCode      string
	ClientName    string
	ClientAddress string
	CreatedAt     time.Time
	ExpiresAt     time.Time
	State         string
}

// refused is an answer in the words of RFC 8628 3.5 and RFC 6749 5.2.
func refused(word string) *fault.Error {
	return fault.New(fault.Refused, "", "%s", word).WithOAuth(word)
}

// The words.
const (
	wordPending = "authorization_pending"
	wordSlow    = "slow_down"
	wordDenied  = "access_denied"
	wordExpired = "expired_token"
	wordGrant   = "invalid_grant"
	wordBusy    = "temporarily_unavailable"
)

// Package session signs users in and out. It owns the access tokens of sessions, the refresh tokens, which may be used
// once, and the check of a credential for the gateway. It promises that a token is rejected from the next call on if
// its session is revoked, its account is disabled, its epoch is outdated or its key is revoked. Each check therefore
// reads the session, the account and the key from the database. Gateways cache the results; Gateways.Settle waits until
// none of them uses a result from before a change.
package session

import (
	"errors"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	// RefreshTTL is how long a refresh token is valid.
	RefreshTTL = 30 * 24 * time.Hour
	// reuseGrace is how long a client may repeat the refresh token that it has just used. This happens if two tabs
	// refresh at the same time or a response is lost. The client then gets the same successor again.
	reuseGrace = 10 * time.Second
	// useEvery is the minimum time between two updates of a session's last use.
	useEvery = time.Minute
)

// Method states how a session was opened.
type Method string

// The methods.
const (
	MethodPassword Method = "password"
	MethodOIDC     Method = "oidc"
	MethodDevice   Method = "device"
	// MethodOAuth is the method of a program that acts for a user on one resource. Its tokens are not valid for the
	// API.
	MethodOAuth Method = "oauth"
)

// Reason states why a session ended.
type Reason string

// The reasons.
const (
	RevokedLogout   Reason = "logout"
	RevokedReuse    Reason = "reuse"
	RevokedUser     Reason = "user"     // the user ended it, possibly from another session
	RevokedPassword Reason = "password" // the user changed the password
)

var (
	// ErrAccountUnusable means that a session cannot be opened or extended: the account is unknown or disabled, it
	// has changed since its credential was checked, or the session has ended.
	ErrAccountUnusable = errors.New("the account is unknown, disabled or changed, or the session has ended")
	// errRefresh is the error for every invalid refresh token.
	errRefresh = errors.New("invalid refresh token")
	// errToken is the error for every invalid access token; callers do not learn the cause.
	errToken = errors.New("invalid access token")
)

// Tokens is the result of a login, a refresh or a grant.
type Tokens struct {
	Access secret.String
	// ExpiresIn is the lifetime of the access token.
	ExpiresIn time.Duration
	// Refresh is empty if the session has no refresh token.
	Refresh   secret.String
	SessionID string
	AccountID string
	Username  string
	Role      string
}

// OpenRequest describes the session to open.
type OpenRequest struct {
	AccountID string
	Method    Method
	// ClientAddress is the address of the client that gets the tokens. ClientName is the name of the program; it may
	// be empty.
	ClientAddress, ClientName string
	// WithRefresh requests a refresh token for the cookie of a browser.
	WithRefresh bool
	// Grant, if not nil, makes the access token valid for another resource instead of the API.
	Grant *Grant

	// epoch is the account's epoch when its password was checked; 0 accepts any epoch.
	epoch int64
}

// Info is a session as its user sees it.
type Info struct {
	ID            string
	Method        Method
	ClientAddress string
	ClientName    *string
	CreatedAt     time.Time
	LastUsedAt    time.Time
}

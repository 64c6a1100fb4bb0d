// Package session signs users in and out. It owns access tokens that name a session, refresh tokens that are used once,
// and the check of a credential for the gateway. It promises that a revoked session, a disabled account, a raised epoch
// and a revoked key invalidate every token at the next call, because each check reads them from the database.
package session

import (
	"errors"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	// RefreshTTL is how long a refresh token may be exchanged.
	RefreshTTL = 30 * 24 * time.Hour
	// reuseGrace is how long a client may repeat the refresh token that it has just used (two tabs, a lost response).
	// It then gets an access token, but no new cookie.
	reuseGrace = 10 * time.Second
	// useEvery is the minimum interval between two recordings of a session's use.
	useEvery = time.Minute
)

// Method states how a session was opened.
type Method string

// The methods.
const (
	MethodPassword Method = "password"
	MethodOIDC     Method = "oidc"
	MethodDevice   Method = "device"
	// MethodOAuth is a program that acts for a user on one resource: its tokens are not valid for the API.
	MethodOAuth Method = "oauth"
)

// Reason states why a session ended.
type Reason string

// The reasons.
const (
	RevokedLogout   Reason = "logout"
	RevokedReuse    Reason = "reuse"
	RevokedAdmin    Reason = "admin"    // an admin reset the account
	RevokedUser     Reason = "user"     // its user ended it, possibly from another session
	RevokedPassword Reason = "password" // its user changed the password
	RevokedDisabled Reason = "disabled"
)

var (
	// ErrAccountUnusable means that a session cannot be opened: the account is unknown or disabled, or it has changed since
	// its credential was checked.
	ErrAccountUnusable = errors.New("the account is unknown, disabled or changed")
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
	// Refresh is empty if the client keeps its cookie, or has none.
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
	// ClientAddress is the address of the client that gets the tokens. ClientName is the program; it may be empty.
	ClientAddress, ClientName string
	// WithRefresh requests a token for the refresh cookie, for browsers.
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

// Package session signs people in and out: access tokens that name a session, refresh tokens that are
// used once, and the check of a credential at the edge. A session that is revoked, an account that is
// disabled, a raised epoch and a revoked key end every token at the next call, because each check reads them.
package session

import (
	"errors"
	"time"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	// RefreshTTL is how long a refresh token may be exchanged.
	RefreshTTL = 30 * 24 * time.Hour
	// reuseGrace is how long a client may repeat the refresh token that it just used (two tabs, a lost
	// answer) and still get an access token, but no new cookie.
	reuseGrace = 10 * time.Second
	// useEvery is how often the use of a session is written down.
	useEvery = time.Minute
)

// Method says how a session was opened.
type Method string

// The methods.
const (
	MethodPassword Method = "password"
	MethodOIDC     Method = "oidc"
	MethodDevice   Method = "device"
	// MethodOAuth is a program that acts for a person on one resource: its tokens are not for the API.
	MethodOAuth Method = "oauth"
)

// Reason says why a session ended.
type Reason string

// The reasons.
const (
	RevokedLogout   Reason = "logout"
	RevokedReuse    Reason = "reuse"
	RevokedAdmin    Reason = "admin"    // an admin reset the account
	RevokedUser     Reason = "user"     // its person ended it from another one
	RevokedPassword Reason = "password" // its person changed the password
	RevokedDisabled Reason = "disabled"
)

var (
	// ErrNoAccount says that a session cannot be opened: the account is unknown, disabled, or not any more
	// what its credential was checked against.
	ErrNoAccount = errors.New("the account takes no session")
	// errRefresh is for every refresh token that does not hold.
	errRefresh = errors.New("the refresh token does not hold")
	// errToken is for every access token that does not hold; why is nobody's business outside.
	errToken = errors.New("the access token does not hold")
)

// Tokens are what a login, a refresh or a grant gives.
type Tokens struct {
	Access secret.String
	// ExpiresIn is how long the access token lives.
	ExpiresIn time.Duration
	// Refresh is empty where the client keeps the cookie that it has, and where it has none.
	Refresh   secret.String
	SessionID string
	AccountID string
	Username  string
	Role      string
}

// OpenRequest says what session to open.
type OpenRequest struct {
	AccountID string
	Method    Method
	// ClientAddress is the address of who will hold the tokens, ClientName the program that asked; it may be
	// empty.
	ClientAddress, ClientName string
	// WithRefresh asks for the token of the refresh cookie: for browsers.
	WithRefresh bool
	// Grant makes the access token one for another resource than the API; nil is the API.
	Grant *Grant

	// epoch is the account's when its password was checked; 0 takes it as it is.
	epoch int64
}

// Info is a session as its person sees it.
type Info struct {
	ID            string
	Method        Method
	ClientAddress string
	ClientName    *string
	CreatedAt     time.Time
	LastUsedAt    time.Time
}

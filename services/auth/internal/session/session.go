// Package session signs people in and out: access tokens that name a session, refresh tokens that are
// used once, and the check of a credential at the edge. A session that is revoked, an account that is
// disabled and a raised epoch end every token at the next call, because each check reads them.
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
)

// The reasons why a session ends.
const (
	revokedLogout = "logout"
	revokedReuse  = "reuse"
)

var (
	// errRefresh is for every refresh token that does not hold.
	errRefresh = errors.New("the refresh token does not hold")
	// errToken is for every access token that does not hold; why is nobody's business outside.
	errToken = errors.New("the access token does not hold")
)

// Tokens are what a login or a refresh gives.
type Tokens struct {
	Access secret.String
	// Refresh is empty where the client keeps the cookie that it has.
	Refresh  secret.String
	Username string
	Role     string
}

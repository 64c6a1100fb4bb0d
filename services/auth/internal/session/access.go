package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// The issuer and the audience of access tokens for the API.
const (
	apiIssuer   = "signalbox"
	apiAudience = "signalbox-api"
)

const (
	accessLeeway   = 10 * time.Second
	accessMaxBytes = 4096
)

// GrantTTL is the lifetime of an access token for a resource other than the API.
const GrantTTL = time.Hour

// Grant describes an access token for a resource other than the API. A token for one resource is never accepted for
// another one.
type Grant struct {
	// Issuer is the authorization server. Audience is the one resource of the token (RFC 8707).
	Issuer, Audience string
	// Scope and ClientID are checked by the resource, not by this package.
	Scope, ClientID string
}

// claims are the claims of an access token in addition to the registered ones.
type claims struct {
	SessionID string `json:"sid"`
	Role      string `json:"role"`
	// Epoch is the account's epoch when the token was issued. If the account's epoch has increased since, the token
	// is invalid.
	Epoch    int64  `json:"epoch"`
	Scope    string `json:"scope,omitempty"`
	ClientID string `json:"client_id,omitempty"`

	expires time.Time // the registered claim exp
}

// keys returns the keys that sign and verify access tokens. It is implemented by key.Set.
type keys interface {
	authn.KeySource
	// Latest returns the key to sign with. It always reads the keys from the database, with q.
	Latest(ctx context.Context, q pg.Querier) (authn.SigningKey, error)
}

// Access issues and checks access tokens. All tokens use one algorithm; the keys rotate.
type Access struct {
	keys  keys
	ttl   time.Duration
	clock clock.Clock
}

// NewAccess returns an Access. Its tokens for the API are valid for the given time.
func NewAccess(k keys, ttl time.Duration, clk clock.Clock) *Access {
	return &Access{keys: k, ttl: ttl, clock: clk}
}

// format returns the token format of a grant, or the format of API tokens if g is nil.
func (a *Access) format(g *Grant) authn.Format {
	f := authn.Format{
		Typ: secret.TypAccess, Issuer: apiIssuer, Audience: apiAudience, Lifetime: a.ttl, Leeway: accessLeeway, MaxBytes: accessMaxBytes,
	}
	if g != nil {
		f.Issuer, f.Audience, f.Lifetime = g.Issuer, g.Audience, GrantTTL
	}
	return f
}

// issue signs a token for the session.
func (a *Access) issue(ctx context.Context, q pg.Querier, l live, g *Grant, jti string) (secret.String, error) {
	if g != nil && (g.Issuer == "" || g.Audience == "" || g.Audience == apiAudience || g.Issuer == apiIssuer) {
		return secret.String{}, fmt.Errorf("issue a token by %q for %q: issuer and audience must differ from those of the API", g.Issuer, g.Audience)
	}
	key, err := a.keys.Latest(ctx, q)
	if err != nil {
		return secret.String{}, err
	}
	c := claims{SessionID: l.sessionID, Role: l.role, Epoch: l.epoch}
	if g != nil {
		c.Scope, c.ClientID = g.Scope, g.ClientID
	}
	signed, err := a.format(g).Sign(key, a.clock.Now(), l.accountID, jti, c)
	if err != nil {
		return secret.String{}, fmt.Errorf("sign an access token: %w", err)
	}
	return secret.New(signed), nil
}

// verify checks the format, the signature and the times of a token. It does not check in the database whether the
// session and the key are still valid; the function check does.
func (a *Access) verify(ctx context.Context, token string, g *Grant) (authn.Registered, claims, error) {
	var c claims
	registered, err := a.format(g).Verify(ctx, a.keys, a.clock.Now(), token, &c)
	return registered, c, err
}

func badToken(cause error) error {
	return fault.New(fault.Unauthenticated, authn.CodeTokenInvalid, "the access token is invalid or revoked; sign in again").Wrap(cause)
}

// Authenticate returns the user of an access token, or an anonymous caller if the token is empty. Role, epoch and
// memberships are read from the database, not from the token, so that a demotion takes effect at the next check.
func (s *Sessions) Authenticate(ctx context.Context, token, address string) (*authn.Caller, error) {
	c, _, err := s.identify(ctx, token, address)
	return c, err
}

// identify is like Authenticate. It also returns the time at which the token expires, or nil for an anonymous caller.
func (s *Sessions) identify(ctx context.Context, token, address string) (*authn.Caller, *time.Time, error) {
	if token == "" {
		return &authn.Caller{Kind: authn.KindNone, ClientAddr: address}, nil, nil
	}
	c, checked, err := s.authenticate(ctx, token, address, nil)
	return c, &checked.expires, err
}

// AuthenticateFor is like Authenticate, but for a resource other than the API. It accepts only tokens with this
// issuer and audience. It also returns the grant of the token.
func (s *Sessions) AuthenticateFor(ctx context.Context, token, address, issuer, audience string) (*authn.Caller, Grant, error) {
	g := Grant{Issuer: issuer, Audience: audience}
	if issuer == "" || audience == "" {
		return nil, Grant{}, badToken(errToken)
	}
	c, tokenClaims, err := s.authenticate(ctx, token, address, &g)
	g.Scope, g.ClientID = tokenClaims.Scope, tokenClaims.ClientID
	return c, g, err
}

func (s *Sessions) authenticate(ctx context.Context, token, address string, g *Grant) (*authn.Caller, claims, error) {
	registered, tokenClaims, err := s.Access.verify(ctx, token, g)
	if err != nil {
		return nil, tokenClaims, err
	}
	tokenClaims.expires = registered.Expires
	l, err := check(ctx, s.Pool, tokenClaims.SessionID, registered.KeyID)
	switch {
	case errors.Is(err, errToken):
		return nil, tokenClaims, badToken(err)
	case err != nil:
		return nil, tokenClaims, err
	case l.accountID != registered.Subject || l.epoch != tokenClaims.Epoch || (l.method == MethodOAuth) != (g != nil), s.over(l):
		return nil, tokenClaims, badToken(errToken)
	}
	if now := s.Clock.Now(); now.Sub(l.lastUsedAt) >= useEvery {
		if err := used(ctx, s.Pool, l.sessionID, now, now.Add(-useEvery)); err != nil {
			return nil, tokenClaims, err
		}
	}
	c, err := s.caller(ctx, l, address)
	return c, tokenClaims, err
}

// over reports whether the sign-in method of the session has been turned off. If a provider is configured, passwords
// are off.
func (s *Sessions) over(l live) bool { return s.ByProvider && l.method == MethodPassword }

// caller returns the user of a session with the current role and memberships.
func (s *Sessions) caller(ctx context.Context, l live, address string) (*authn.Caller, error) {
	c := &authn.Caller{
		Kind: authn.KindUser, Subject: l.accountID, Username: l.username, SessionID: l.sessionID,
		Role: l.role, PasswordDrawn: l.drawn, Epoch: l.epoch, ClientAddr: address,
	}
	return c, account.LoadMemberships(ctx, s.Pool, c)
}

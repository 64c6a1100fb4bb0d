package session

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// The names in access tokens for the API.
const (
	apiIssuer   = "signalbox"
	apiAudience = "signalbox-api"
)

// typ is RFC 9068's, which no other JWT of ours has.
const (
	accessTyp      = "at+jwt"
	accessLeeway   = 10 * time.Second
	accessMaxBytes = 4096
)

// GrantTTL is how long an access token for another resource than the API lives.
const GrantTTL = time.Hour

// Grant is what an access token is for when it is not for the API: a token of one grant never passes for
// one of another.
type Grant struct {
	// Issuer is the authorization server's, Audience the one resource (RFC 8707).
	Issuer, Audience string
	// Scope and ClientID are told to the resource; they are not part of the check.
	Scope, ClientID string
}

// claims are what an access token says beside the registered ones.
type claims struct {
	SessionID string `json:"sid"`
	Role      string `json:"role"`
	// Epoch is the account's at issue: a raised one ends the token.
	Epoch    int64  `json:"epoch"`
	Scope    string `json:"scope,omitempty"`
	ClientID string `json:"client_id,omitempty"`
}

// keys sign access tokens and find the keys of those that come back: key.Set.
type keys interface {
	authn.KeySource
	// Latest is the key to sign with as the database says now, read by q.
	Latest(ctx context.Context, q pg.Querier) (authn.SigningKey, error)
}

// Access issues and checks access tokens: one algorithm, keys that change.
type Access struct {
	keys  keys
	ttl   time.Duration
	clock clock.Clock
}

// NewAccess makes an issuer of tokens that live for ttl where they are for the API.
func NewAccess(k keys, ttl time.Duration, clk clock.Clock) *Access {
	return &Access{keys: k, ttl: ttl, clock: clk}
}

// format is the form of tokens of a grant; nil is the API.
func (a *Access) format(g *Grant) authn.Format {
	f := authn.Format{
		Typ: accessTyp, Issuer: apiIssuer, Audience: apiAudience, Lifetime: a.ttl, Leeway: accessLeeway, MaxBytes: accessMaxBytes,
	}
	if g != nil {
		f.Issuer, f.Audience, f.Lifetime = g.Issuer, g.Audience, GrantTTL
	}
	return f
}

// issue signs a token of the session.
func (a *Access) issue(ctx context.Context, q pg.Querier, l live, g *Grant, jti string) (secret.String, error) {
	if g != nil && (g.Issuer == "" || g.Audience == "" || g.Audience == apiAudience || g.Issuer == apiIssuer) {
		return secret.String{}, fmt.Errorf("issue a token by %q for %q: it would be no token of a resource", g.Issuer, g.Audience)
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

// verify checks a token's form, signature and times. Whether its session and its key still live is the
// store's to say.
func (a *Access) verify(ctx context.Context, token string, g *Grant) (authn.Registered, claims, error) {
	var c claims
	registered, err := a.format(g).Verify(ctx, a.keys, a.clock.Now(), token, &c)
	return registered, c, err
}

func badToken(cause error) error {
	return fault.New(fault.Unauthenticated, authn.CodeTokenInvalid, "The access token is missing, malformed or expired").Wrap(cause)
}

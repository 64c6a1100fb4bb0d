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

// The issuer and the audience of access tokens for the API.
const (
	apiIssuer   = "signalbox"
	apiAudience = "signalbox-api"
)

// accessTyp is the `typ` of access tokens (RFC 9068). No other JWT of this project has it.
const (
	accessTyp      = "at+jwt"
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
	// Scope and ClientID are for the resource. This package does not check them.
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

// NewAccess returns an Access whose tokens for the API are valid for ttl.
func NewAccess(k keys, ttl time.Duration, clk clock.Clock) *Access {
	return &Access{keys: k, ttl: ttl, clock: clk}
}

// format returns the token format of a grant, or the format of API tokens if g is nil.
func (a *Access) format(g *Grant) authn.Format {
	f := authn.Format{
		Typ: accessTyp, Issuer: apiIssuer, Audience: apiAudience, Lifetime: a.ttl, Leeway: accessLeeway, MaxBytes: accessMaxBytes,
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

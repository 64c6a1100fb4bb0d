package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// accessFormat is the form of access tokens; the `typ` is RFC 9068's, which no other JWT of ours has.
func accessFormat(ttl time.Duration) authn.Format {
	return authn.Format{
		Typ: "at+jwt", Issuer: "signalbox", Audience: "signalbox-api",
		Lifetime: ttl, Leeway: 10 * time.Second, MaxBytes: 4096,
	}
}

// claims are what an access token says beside the registered ones.
type claims struct {
	SessionID string `json:"sid"`
	Role      string `json:"role"`
	// Epoch is the account's at issue: a raised one ends the token.
	Epoch int64 `json:"epoch"`
}

// Access issues and checks access tokens: one algorithm, one live key.
type Access struct {
	format authn.Format
	key    authn.SigningKey
	keys   *authn.Keys
	clock  clock.Clock
}

// NewAccess makes an issuer of tokens that live for ttl.
func NewAccess(key authn.SigningKey, ttl time.Duration, clk clock.Clock) *Access {
	return &Access{format: accessFormat(ttl), key: key, keys: authn.StaticKeys(clk, key.Public()), clock: clk}
}

// issue signs a token of the session.
func (a *Access) issue(l live, jti string) (secret.String, error) {
	signed, err := a.format.Sign(a.key, a.clock.Now(), l.accountID, jti, claims{SessionID: l.sessionID, Role: l.role, Epoch: l.epoch})
	if err != nil {
		return secret.String{}, fmt.Errorf("sign an access token: %w", err)
	}
	return secret.New(signed), nil
}

// verify checks a token's form, signature and times. Whether its session still lives is the store's to say.
func (a *Access) verify(ctx context.Context, token string) (accountID string, c claims, err error) {
	// base64 decoders skip line ends, so one token would have many spellings.
	if strings.ContainsAny(token, "\r\n") {
		return "", c, badToken(errToken)
	}
	registered, err := a.format.Verify(ctx, a.keys, a.clock.Now(), token, &c)
	return registered.Subject, c, err
}

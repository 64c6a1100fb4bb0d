package session

import (
	"context"
	"errors"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// Authenticate returns the user of an access token, or an anonymous caller if token is empty. Role, epoch and
// memberships are read from the database, not from the token, so that a demotion takes effect at the next call.
func (s *Sessions) Authenticate(ctx context.Context, token, address string) (*authn.Caller, error) {
	if token == "" {
		return &authn.Caller{Kind: authn.KindNone, ClientAddr: address}, nil
	}
	c, _, err := s.authenticate(ctx, token, address, nil)
	return c, err
}

// AuthenticateFor is like Authenticate, but for a resource other than the API. It accepts only tokens with this
// issuer and audience. It also returns their grant.
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

package session

import (
	"context"
	"errors"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// Authenticate answers who presents the access token; an empty one is nobody. Role, epoch and
// memberships are read now, not taken from the token, so that a demotion counts at the next call.
func (s *Sessions) Authenticate(ctx context.Context, token, address string) (*authn.Caller, error) {
	if token == "" {
		return &authn.Caller{Kind: authn.KindNone, ClientAddr: address}, nil
	}
	c, _, err := s.authenticate(ctx, token, address, nil)
	return c, err
}

// AuthenticateFor is Authenticate for a resource other than the API: it takes the tokens of that issuer and
// audience alone, and answers their grant.
func (s *Sessions) AuthenticateFor(ctx context.Context, token, address, issuer, audience string) (*authn.Caller, Grant, error) {
	g := Grant{Issuer: issuer, Audience: audience}
	if issuer == "" || audience == "" {
		return nil, Grant{}, badToken(errToken)
	}
	c, says, err := s.authenticate(ctx, token, address, &g)
	g.Scope, g.ClientID = says.Scope, says.ClientID
	return c, g, err
}

func (s *Sessions) authenticate(ctx context.Context, token, address string, g *Grant) (*authn.Caller, claims, error) {
	registered, says, err := s.Access.verify(ctx, token, g)
	if err != nil {
		return nil, says, err
	}
	l, err := check(ctx, s.Pool, says.SessionID, registered.KeyID)
	switch {
	case errors.Is(err, errToken):
		return nil, says, badToken(err)
	case err != nil:
		return nil, says, err
	case l.accountID != registered.Subject || l.epoch != says.Epoch || (l.method == MethodOAuth) != (g != nil), s.over(l):
		return nil, says, badToken(errToken)
	}
	if now := s.Clock.Now(); now.Sub(l.lastUsedAt) >= useEvery {
		if err := used(ctx, s.Pool, l.sessionID, now, now.Add(-useEvery)); err != nil {
			return nil, says, err
		}
	}
	c, err := s.caller(ctx, l, address)
	return c, says, err
}

// over says whether the way by which the session came is closed: passwords, once a provider signs people in.
func (s *Sessions) over(l live) bool { return s.ByProvider && l.method == MethodPassword }

// caller is the person of a session with what is his now.
func (s *Sessions) caller(ctx context.Context, l live, address string) (*authn.Caller, error) {
	c := &authn.Caller{
		Kind: authn.KindUser, Subject: l.accountID, Username: l.username, SessionID: l.sessionID,
		Role: l.role, PasswordDrawn: l.drawn, Epoch: l.epoch, ClientAddr: address,
	}
	return c, account.Belong(ctx, s.Pool, c)
}

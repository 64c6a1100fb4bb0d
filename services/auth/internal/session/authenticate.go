package session

import (
	"context"
	"errors"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// Authenticate answers who presents the access token; an empty one is nobody. Role, epoch and
// memberships are read now, not taken from the token, so that a demotion counts at the next call.
func (s *Sessions) Authenticate(ctx context.Context, token, address string) (*authn.Caller, error) {
	if token == "" {
		return &authn.Caller{Kind: authn.KindNone, ClientAddr: address}, nil
	}
	accountID, claims, err := s.Access.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	l, err := loadLive(ctx, s.Pool, claims.SessionID)
	if errors.Is(err, errToken) {
		return nil, badToken(err)
	}
	if err != nil {
		return nil, err
	}
	if l.accountID != accountID || l.epoch != claims.Epoch {
		return nil, badToken(errToken)
	}
	members, err := account.Memberships(ctx, s.Pool, l.accountID)
	if err != nil {
		return nil, err
	}
	c := &authn.Caller{
		Kind: authn.KindUser, Subject: l.accountID, Username: l.username, SessionID: l.sessionID,
		Role: l.role, Epoch: l.epoch, ClientAddr: address,
	}
	for _, m := range members {
		c.Projects = append(c.Projects, authn.ProjectRole{Project: m.ProjectID, Role: m.Role})
	}
	return c, nil
}

func badToken(cause error) error {
	return fault.New(fault.Unauthenticated, authn.CodeTokenInvalid, "The access token is missing, malformed or expired").Wrap(cause)
}

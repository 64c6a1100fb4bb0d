package oauth

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// Revoke ends the grant of a refresh or access token, with all tokens of the grant (RFC 7009 2.1). It returns nil for
// an unknown or invalid token, and an error for a token of another client. It also returns an error for an access token
// of the API, because only a logout ends such a token.
func (a *Authority) Revoke(ctx context.Context, form map[string]string) error {
	client, err := a.Clients.identified(ctx, form)
	if err != nil {
		return err
	}
	token := form["token"]
	if token == "" {
		return refused(wordRequest, "token is missing")
	}
	if hash, ok := secret.Parse(secret.KindRefresh, token); ok {
		return a.revoke(ctx, client, func(ctx context.Context, tx pgx.Tx) (grant, bool, error) {
			r, ok, err := lockRefresh(ctx, tx, hash)
			return r.grant, ok, err
		})
	}
	caller, _, err := a.Sessions.AuthenticateFor(ctx, token, "", a.issuer(), a.resource())
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return a.unknown(ctx, token)
	case err != nil:
		return err
	}
	return a.revoke(ctx, client, func(ctx context.Context, tx pgx.Tx) (grant, bool, error) {
		return ofSession(ctx, tx, caller.SessionID)
	})
}

// unknown returns an error if the token is a valid access token of the API, which this endpoint cannot revoke.
func (a *Authority) unknown(ctx context.Context, token string) error {
	switch _, err := a.Sessions.Authenticate(ctx, token, ""); {
	case err == nil:
		return refused(wordTokenType, "an access token of the API cannot be revoked here; log out to end it")
	case fault.Is(err, fault.Unauthenticated):
		return nil
	default:
		return err
	}
}

func (a *Authority) revoke(ctx context.Context, client Client, find func(ctx context.Context, tx pgx.Tx) (grant, bool, error)) error {
	foreign := false
	err := pg.InTx(ctx, a.Pool, func(ctx context.Context, tx pgx.Tx) error {
		g, ok, err := find(ctx, tx)
		if foreign = ok && g.clientID != client.ID; err != nil || !ok || foreign {
			return err
		}
		return a.end(ctx, tx, g, "client", "")
	})
	if err == nil && foreign {
		return refused(wordGrant, "the token belongs to another client")
	}
	return err
}

// end revokes a grant with its refresh tokens, and ends its session. Without the session, the grant's access tokens
// are invalid.
func (a *Authority) end(ctx context.Context, tx pgx.Tx, g grant, why, address string) error {
	ended, err := revokeGrant(ctx, tx, g.id, why, a.Clock.Now())
	if err != nil || !ended {
		return err
	}
	reason := session.RevokedReuse
	if why == "client" {
		reason = session.RevokedLogout
	}
	if err := a.Sessions.EndTx(ctx, tx, g.sessionID, reason); err != nil {
		return err
	}
	actor := a.Audit.Actor(ctx)
	actor.Kind, actor.ID, actor.Name, actor.SessionID, actor.ClientAddr = string(authn.KindUser), g.accountID, "", g.sessionID, address
	return a.Audit.Record(ctx, tx, audit.Entry{
		Action: "oauth.revoke", TargetKind: "oauth_grant", TargetID: g.id, Actor: &actor,
		After: map[string]string{"client_id": g.clientID, "reason": why},
	})
}

package oauth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// Issue implements the token endpoint.
func (a *Authority) Issue(ctx context.Context, form map[string]string, address string) (Tokens, error) {
	grantType := form["grant_type"]
	switch grantType {
	case "":
		return Tokens{}, refused(wordRequest, "grant_type is missing")
	case grantCode, grantRefresh, grantDevice:
	default:
		return Tokens{}, refused(wordGrantType, "grant_type is not supported")
	}
	client, err := a.Clients.identified(ctx, form)
	if err != nil {
		return Tokens{}, err
	}
	if client.Device != (grantType == grantDevice) {
		return Tokens{}, refused(wordUnauthorized, "this client may not use this grant_type")
	}
	switch grantType {
	case grantCode:
		return a.exchange(ctx, client, form, address)
	case grantRefresh:
		return a.refresh(ctx, client, form, address)
	default:
		return a.poll(ctx, client, form, address)
	}
}

// verdict is the error of a transaction that must be committed although it gives no tokens. inTx returns it after the
// commit.
type verdict = *fault.Error

// exchange issues tokens for a code.
func (a *Authority) exchange(ctx context.Context, client Client, form map[string]string, address string) (Tokens, error) {
	if missing := absent(form, "code", "code_verifier"); missing != "" {
		return Tokens{}, refused(wordRequest, missing+" is missing")
	}
	if form["resource"] == "" {
		return Tokens{}, refused(wordTarget, "resource is missing")
	}
	hash, ok := secret.Parse(secret.KindCode, form["code"])
	if !ok {
		return Tokens{}, badGrant()
	}
	return a.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (Tokens, verdict, error) {
		now := a.Clock.Now()
		g, ok, err := lockCode(ctx, tx, hash)
		switch {
		case err != nil:
			return Tokens{}, nil, err
		case ok && g.codeUsedAt != nil:
			// Either the first or this second use is by a thief, so the code's tokens become invalid (OAuth 2.1,
			// 4.1.3).
			return Tokens{}, badGrant(), a.end(ctx, tx, g, "replay", address)
		case !ok || g.clientID != client.ID || !now.Before(g.codeExpires) || !proves(form["code_verifier"], g.challenge):
			// Change nothing: a thief who has the code but not the verifier must not be able to use up the code.
			return Tokens{}, badGrant(), nil
		case form["redirect_uri"] != "" && form["redirect_uri"] != g.redirect:
			return Tokens{}, badGrant(), nil
		case form["resource"] != g.resource:
			return Tokens{}, refused(wordTarget, "resource is not the one that the user approved"), nil
		}
		return a.open(ctx, tx, client, g, address)
	})
}

// open opens the session of a grant and issues its first tokens.
func (a *Authority) open(ctx context.Context, tx pgx.Tx, client Client, g grant, address string) (Tokens, verdict, error) {
	if ok, err := allows(ctx, tx, g); err != nil || !ok {
		return Tokens{}, badGrant(), err
	}
	opened, err := a.Sessions.OpenTx(ctx, tx, session.OpenRequest{
		AccountID: g.accountID, Method: session.MethodOAuth, ClientAddress: address, ClientName: client.Name, Grant: a.granted(g, g.scope),
	})
	if err != nil {
		return Tokens{}, nil, fmt.Errorf("open the client's session: %w", err)
	}
	if err := useCode(ctx, tx, g.id, opened.SessionID, a.Clock.Now()); err != nil {
		return Tokens{}, nil, err
	}
	g.sessionID = opened.SessionID
	return a.tokens(ctx, tx, g, opened, g.scope)
}

// granted returns the claims of the access tokens of a grant.
func (a *Authority) granted(g grant, scope string) *session.Grant {
	return &session.Grant{Issuer: a.issuer(), Audience: g.resource, Scope: scope, ClientID: g.clientID}
}

// tokens stores the grant's next refresh token and returns it together with an access token.
func (a *Authority) tokens(ctx context.Context, tx pgx.Tx, g grant, access session.Tokens, scope string) (Tokens, verdict, error) {
	next, err := secret.Mint(a.Rand, secret.KindRefresh)
	if err != nil {
		return Tokens{}, nil, fmt.Errorf("mint a refresh token: %w", err)
	}
	now := a.Clock.Now()
	if err := insertRefresh(ctx, tx, secret.Hash(next.Reveal()), g.id, now); err != nil {
		return Tokens{}, nil, err
	}
	if err := a.Sessions.KeepTx(ctx, tx, g.sessionID, now.Add(RefreshTTL)); err != nil {
		return Tokens{}, nil, err
	}
	return Tokens{Access: access.Access, Expires: access.ExpiresIn, Refresh: next, Scope: scope}, nil, nil
}

// refresh exchanges a refresh token for its successor. It never accepts a token twice. A browser may repeat its refresh
// token for a short time, because several windows share the cookie (package session). A program has only one copy of
// its token, so a repeated token has been stolen.
func (a *Authority) refresh(ctx context.Context, client Client, form map[string]string, address string) (Tokens, error) {
	if form["refresh_token"] == "" {
		return Tokens{}, refused(wordRequest, "refresh_token is missing")
	}
	hash, ok := secret.Parse(secret.KindRefresh, form["refresh_token"])
	if !ok {
		return Tokens{}, badGrant()
	}
	return a.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (Tokens, verdict, error) {
		now := a.Clock.Now()
		r, ok, err := lockRefresh(ctx, tx, hash)
		switch {
		case err != nil:
			return Tokens{}, nil, err
		case !ok || r.clientID != client.ID:
			return Tokens{}, badGrant(), nil
		case r.usedAt != nil:
			return Tokens{}, badGrant(), a.end(ctx, tx, r.grant, "reuse", address)
		case r.revokedAt != nil || !now.Before(r.expiresAt):
			return Tokens{}, badGrant(), nil
		case form["resource"] != "" && form["resource"] != r.resource:
			return Tokens{}, refused(wordTarget, "resource is not the one that the user approved"), nil
		}
		return a.renew(ctx, tx, r, hash, form["scope"])
	})
}

// renew issues the next tokens of a grant. The requested scope may be narrower than the approved one.
func (a *Authority) renew(ctx context.Context, tx pgx.Tx, r refreshToken, hash []byte, requested string) (Tokens, verdict, error) {
	scope := r.scope
	if requested != "" {
		var err error
		if scope, err = scopes(requested, strings.Fields(r.scope)); err != nil {
			return Tokens{}, fault.From(err), nil
		}
	}
	if ok, err := allows(ctx, tx, r.grant); err != nil || !ok {
		return Tokens{}, badGrant(), err
	}
	if err := useRefresh(ctx, tx, hash, a.Clock.Now()); err != nil {
		return Tokens{}, nil, err
	}
	access, err := a.Sessions.IssueFor(ctx, tx, r.sessionID, *a.granted(r.grant, scope))
	if errors.Is(err, session.ErrAccountUnusable) { // the session has ended
		return Tokens{}, badGrant(), nil
	}
	if err != nil {
		return Tokens{}, nil, fmt.Errorf("renew the client's session: %w", err)
	}
	return a.tokens(ctx, tx, r.grant, access, scope)
}

// inTx runs the function fn in a transaction. If fn returns a verdict, inTx returns it after the commit.
func (a *Authority) inTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) (Tokens, verdict, error)) (Tokens, error) {
	var t Tokens
	var v verdict
	err := pg.InTx(ctx, a.Pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		t, v, err = fn(ctx, tx)
		return err
	})
	if err != nil {
		return Tokens{}, err
	}
	if v != nil {
		return Tokens{}, v
	}
	return t, nil
}

// absent returns the first of the named fields that the form lacks, or an empty string if it has all of them.
func absent(form map[string]string, names ...string) string {
	for _, name := range names {
		if form[name] == "" {
			return name
		}
	}
	return ""
}

// DeleteGrants deletes grants whose code and refresh tokens all expired before the given time, at most limit of them.
// It returns the number of deleted grants.
func (a *Authority) DeleteGrants(ctx context.Context, before time.Time, limit int) (int64, error) {
	return deleteGrants(ctx, a.Pool, before, limit)
}

// seconds returns d in whole seconds, the unit that the OAuth RFCs use.
func seconds(d time.Duration) int64 { return int64(d / time.Second) }

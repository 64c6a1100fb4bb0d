package session

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Open opens a session of an account whose user was authenticated, and returns its tokens. It returns
// ErrAccountUnusable if the account is unknown or disabled, or has changed since its password was checked.
func (s *Sessions) Open(ctx context.Context, r OpenRequest) (Tokens, error) {
	var t Tokens
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		t, err = s.OpenTx(ctx, tx, r)
		return err
	})
	if err != nil {
		return Tokens{}, err
	}
	return t, nil
}

// OpenTx is like Open, but in the caller's transaction. The tokens are valid once tx is committed. OpenTx locks the
// account against changes until then. If tx also changes the account, it must do so before this call.
func (s *Sessions) OpenTx(ctx context.Context, tx pgx.Tx, r OpenRequest) (Tokens, error) {
	l, err := lockAccount(ctx, tx, r.AccountID, r.epoch)
	if err != nil {
		return Tokens{}, err
	}
	l.sessionID = s.IDs.New(id.Session)
	now := s.Clock.Now()
	ends := now.Add(s.Access.format(r.Grant).Lifetime)
	var refresh secret.String
	if r.WithRefresh {
		ends = now.Add(RefreshTTL)
		if refresh, err = secret.Mint(s.Rand, secret.KindRefresh); err != nil {
			return Tokens{}, fmt.Errorf("mint a refresh token: %w", err)
		}
	}
	if err := insertSession(ctx, tx, l, r, now, ends); err != nil {
		return Tokens{}, err
	}
	if r.WithRefresh {
		if err := insertRefresh(ctx, tx, secret.Hash(refresh.Reveal()), l.sessionID, now, ends); err != nil {
			return Tokens{}, err
		}
	}
	if err := s.record(ctx, tx, l, "session.open", r.ClientAddress); err != nil {
		return Tokens{}, err
	}
	return s.tokens(ctx, tx, l, refresh, r.Grant)
}

// IssueFor signs another access token of a session for a grant, as an authorization server does at a refresh, and
// extends the session until the token expires. It returns ErrAccountUnusable if the session has ended or the account is
// disabled.
func (s *Sessions) IssueFor(ctx context.Context, q pg.Querier, sessionID string, g Grant) (Tokens, error) {
	now := s.Clock.Now()
	l, err := extend(ctx, q, sessionID, now.Add(s.Access.format(&g).Lifetime))
	if err != nil {
		return Tokens{}, err
	}
	return s.tokens(ctx, q, l, secret.String{}, &g)
}

// KeepTx extends a session until the given time, at which the refresh token of a grant expires. It returns
// ErrAccountUnusable if the session has ended or the account is disabled.
func (s *Sessions) KeepTx(ctx context.Context, tx pgx.Tx, sessionID string, until time.Time) error {
	_, err := extend(ctx, tx, sessionID, until)
	return err
}

// tokens signs a new access token of the session; q may be the caller's transaction.
func (s *Sessions) tokens(ctx context.Context, q pg.Querier, l live, refresh secret.String, g *Grant) (Tokens, error) {
	access, err := s.Access.issue(ctx, q, l, g, s.IDs.New(id.TokenRow))
	if err != nil {
		return Tokens{}, err
	}
	return Tokens{
		Access: access, ExpiresIn: s.Access.format(g).Lifetime, Refresh: refresh,
		SessionID: l.sessionID, AccountID: l.accountID, Username: l.username, Role: l.role,
	}, nil
}

// record writes an audit row with the session's user as the actor, because a login has no caller yet.
func (s *Sessions) record(ctx context.Context, tx pgx.Tx, l live, action, address string) error {
	actor := s.Audit.Actor(ctx)
	actor.Kind, actor.ID, actor.Name = string(authn.KindUser), l.accountID, l.username
	actor.SessionID, actor.ClientAddr = l.sessionID, address
	return s.Audit.Record(ctx, tx, audit.Entry{Action: action, TargetKind: "session", TargetID: l.sessionID, Actor: &actor})
}

// Logout ends the caller's session. From the next call on, its access and refresh tokens are invalid.
func (s *Sessions) Logout(ctx context.Context, c *authn.Caller) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		ended, err := revoke(ctx, tx, c.SessionID, RevokedLogout, s.Clock.Now())
		if err != nil || !ended {
			return err
		}
		l := live{sessionID: c.SessionID, accountID: c.Subject, username: c.Username, role: c.Role}
		return s.record(ctx, tx, l, "session.logout", c.ClientAddr)
	})
}

// List returns the valid sessions of an account, newest first, and whether there are more.
func (s *Sessions) List(ctx context.Context, accountID string, p request.Page) ([]Info, bool, error) {
	list, err := listLive(ctx, s.Pool, accountID, s.Clock.Now(), p)
	if err != nil {
		return nil, false, err
	}
	shown, more := request.CutPage(list, p)
	return shown, more, nil
}

// Revoke ends one of the caller's own sessions. A session of another user gives the same error as an unknown one.
func (s *Sessions) Revoke(ctx context.Context, c *authn.Caller, sessionID string) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		ended, err := revokeOwn(ctx, tx, c.Subject, sessionID, s.Clock.Now())
		if err != nil {
			return err
		}
		if !ended {
			return fault.New(fault.Absent, "", "no such session: %s", sessionID)
		}
		return s.Audit.Record(ctx, tx, audit.Entry{Action: "session.revoke", TargetKind: "session", TargetID: sessionID})
	})
}

// RevokeOthers ends every session of the caller except the calling one.
func (s *Sessions) RevokeOthers(ctx context.Context, c *authn.Caller) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		n, err := s.EndAll(ctx, tx, c.Subject, RevokedUser, c.SessionID)
		if err != nil || n == 0 {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			Action: "session.revoke_others", TargetKind: "account", TargetID: c.Subject, After: map[string]any{"ended": n},
		})
	})
}

// EndAll ends every session of an account, except the session with the given id, and returns how many it ended. An
// empty id matches no session. If tx also changes the account, it must do so before this call, so that no session
// opens in between. The caller must write the audit row.
func (s *Sessions) EndAll(ctx context.Context, tx pgx.Tx, accountID string, why Reason, except string) (int, error) {
	return revokeAll(ctx, tx, accountID, why, except, s.Clock.Now())
}

// EndTx ends one session in the transaction of the change that ends it. It does nothing if the session has already
// ended. The caller must write the audit row.
func (s *Sessions) EndTx(ctx context.Context, tx pgx.Tx, sessionID string, why Reason) error {
	_, err := revoke(ctx, tx, sessionID, why, s.Clock.Now())
	return err
}

// DeleteTokens deletes refresh tokens that expired before the given time, at most limit of them, and returns their
// number. Used tokens are not deleted earlier, so that the repeated use of a stolen token is detected. DeleteTokens and
// DeleteSessions do not run in one transaction, because two replicas could then deadlock.
func (s *Sessions) DeleteTokens(ctx context.Context, before time.Time, limit int) (int64, error) {
	return forgetTokens(ctx, s.Pool, before, limit)
}

// DeleteSessions deletes sessions that expired before the given time, revoked or not, with their remaining tokens. It
// deletes at most limit sessions and returns their number.
func (s *Sessions) DeleteSessions(ctx context.Context, before time.Time, limit int) (int64, error) {
	return forgetSessions(ctx, s.Pool, before, limit)
}

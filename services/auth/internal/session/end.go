package session

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

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

// EndAll ends every session of an account, apart from the session with the id except, which may be empty, and returns
// how many it ended. If tx also changes the account, it must do so before, so that no session opens in between. The
// caller must write the audit row.
func (s *Sessions) EndAll(ctx context.Context, tx pgx.Tx, accountID string, why Reason, except string) (int, error) {
	return revokeAll(ctx, tx, accountID, why, except, s.Clock.Now())
}

// EndTx ends one session in the transaction of the change that ends it. It does nothing if the session has already
// ended. The caller must write the audit row.
func (s *Sessions) EndTx(ctx context.Context, tx pgx.Tx, sessionID string, why Reason) error {
	_, err := revoke(ctx, tx, sessionID, why, s.Clock.Now())
	return err
}

// keptAfterEnd is how long sessions and refresh tokens are stored after they expire. forgetAtOnce is the maximum
// number of rows that one statement deletes.
const (
	keptAfterEnd = 24 * time.Hour
	forgetAtOnce = 1000
)

// Sweep deletes sessions and refresh tokens that expired more than keptAfterEnd ago. Revoked sessions and used tokens
// also stay until then, so that the use of a stolen token is recognized.
func (s *Sessions) Sweep(ctx context.Context) error {
	before := s.Clock.Now().Add(-keptAfterEnd)
	for _, forget := range []func(context.Context, pg.Querier, time.Time, int) (int, error){forgetTokens, forgetSessions} {
		for full := true; full; {
			n, err := forget(ctx, s.Pool, before, forgetAtOnce)
			if err != nil {
				return err
			}
			full = n == forgetAtOnce
		}
	}
	return nil
}

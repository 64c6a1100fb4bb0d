package session

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// Logout ends the caller's session: its access tokens fail at the next call and its refresh tokens at once.
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

// List shows the sessions of an account that still hold, newest first, and whether there are more.
func (s *Sessions) List(ctx context.Context, accountID string, p page.Page) ([]Info, bool, error) {
	list, err := listLive(ctx, s.Pool, accountID, s.Clock.Now(), p)
	if err != nil {
		return nil, false, err
	}
	shown, more := page.Cut(list, p)
	return shown, more, nil
}

// Revoke ends one session of the caller's own. One of somebody else is as absent as one that never was.
func (s *Sessions) Revoke(ctx context.Context, c *authn.Caller, sessionID string) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		ended, err := revokeOwn(ctx, tx, c.Subject, sessionID, s.Clock.Now())
		if err != nil {
			return err
		}
		if !ended {
			return fault.New(fault.Absent, "", "no session %s", sessionID)
		}
		return s.Audit.Record(ctx, tx, audit.Entry{Action: "session.revoke", TargetKind: "session", TargetID: sessionID})
	})
}

// RevokeOthers ends every session of the caller but the one that he calls by.
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

// EndAll ends every session of an account but one (none where except is empty), in the transaction of what
// ends them: a change of the account row comes before it, so that no session opens between the two. Its
// audit row is the caller's.
func (s *Sessions) EndAll(ctx context.Context, tx pgx.Tx, accountID string, why Reason, except string) (int, error) {
	return revokeAll(ctx, tx, accountID, why, except, s.Clock.Now())
}

// EndTx ends one session in the transaction of what ends it; one that had ended stays as it is. Its audit row
// is the caller's.
func (s *Sessions) EndTx(ctx context.Context, tx pgx.Tx, sessionID string, why Reason) error {
	_, err := revoke(ctx, tx, sessionID, why, s.Clock.Now())
	return err
}

// How long after their end sessions and refresh tokens are kept, and how many are forgotten by one statement.
const (
	keptAfterEnd = 24 * time.Hour
	forgetAtOnce = 1000
)

// Sweep forgets sessions and refresh tokens that ended by time a day ago or earlier. What was revoked stays
// until then, so that a stolen token that comes back is known for what it is; the audit keeps the rest.
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

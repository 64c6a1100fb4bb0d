package profile

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// limiter limits password attempts per client address. The sign-in uses the same limiter.
type limiter interface {
	Take(ctx context.Context, address string) error
}

// hasher compares a password with a stored hash, and creates hashes.
type hasher interface {
	Check(ctx context.Context, stored string, password secret.String) (bool, error)
	Hash(ctx context.Context, password secret.String) (string, error)
}

// Passwords changes passwords.
type Passwords struct {
	Pool     *pgxpool.Pool
	Limit    limiter
	Hasher   hasher
	Sessions sessions
	Audit    *audit.Log
	// On is false if users sign in with a provider and passwords are off.
	On bool
}

// Change replaces the caller's password and ends all access tokens and other sessions of the caller. It returns an
// error if the parameter present is not the current password, or if the new password is the same.
func (s *Passwords) Change(ctx context.Context, c *authn.Caller, present, next secret.String) error {
	if !s.On {
		return account.PasswordsOff()
	}
	if err := s.Limit.Take(ctx, c.ClientAddr); err != nil {
		return err
	}
	a, err := account.ByID(ctx, s.Pool, c.Subject)
	if err != nil {
		return err
	}
	ok, err := s.Hasher.Check(ctx, a.PasswordHash, present)
	switch {
	case errors.Is(err, password.ErrBusy):
		return account.Busy(err)
	case err != nil:
		return err
	case !ok:
		// Not 401: the credential of the request is valid.
		return fault.New(fault.Refused, "bad_password", "the current password is incorrect")
	case present.Equal(next):
		return fault.New(fault.Refused, "same_password", "the new password must differ from the current one")
	}
	hash, err := account.Hash(ctx, s.Hasher, next)
	if err != nil {
		return err
	}
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := account.ChangePassword(ctx, tx, a, hash); err != nil {
			return err
		}
		ended, err := s.Sessions.EndAll(ctx, tx, a.ID, session.RevokedPassword, c.SessionID)
		if err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			Action: "account.password", TargetKind: account.SubjectKind, TargetID: a.ID, After: map[string]any{"sessions_ended": ended},
		})
	})
}

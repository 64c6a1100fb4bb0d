package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
)

// limiter refuses an address that tries too often.
type limiter interface {
	Take(ctx context.Context, address string) error
}

// hasher compares a password with a stored hash, and makes new ones; checking an empty hash costs the
// same and never matches.
type hasher interface {
	Check(ctx context.Context, stored string, password secret.String) (bool, error)
	Outdated(stored string) bool
	Hash(ctx context.Context, password secret.String) (string, error)
}

// Sessions opens, renews and ends sessions.
type Sessions struct {
	Pool     *pgxpool.Pool
	Access   *Access
	Limit    limiter
	Password hasher
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	Rand     io.Reader
}

// badLogin is the one answer to every failed login, whoever it was for.
func badLogin() error {
	return fault.New(fault.Unauthenticated, "bad_login", "Incorrect username or password")
}

// Login opens a session. An unknown, a disabled and a mistyped login look and cost the same.
func (s *Sessions) Login(ctx context.Context, username string, pass secret.String, address string) (Tokens, error) {
	if err := s.Limit.Take(ctx, address); err != nil {
		return Tokens{}, err
	}
	a, err := account.ByUsername(ctx, s.Pool, username)
	if err != nil && !errors.Is(err, account.ErrUnknown) {
		return Tokens{}, err
	}
	ok, err := s.Password.Check(ctx, a.PasswordHash, pass)
	if errors.Is(err, password.ErrBusy) {
		return Tokens{}, fault.New(fault.Unavailable, "login_busy", "Too many logins at once").WithRetryAfter(time.Second)
	}
	if err != nil {
		return Tokens{}, err
	}
	if !ok || a.DisabledAt != nil {
		return Tokens{}, badLogin()
	}
	tokens, err := s.open(ctx, a, address)
	if err != nil || !s.Password.Outdated(a.PasswordHash) {
		return tokens, err
	}
	return tokens, s.rehash(ctx, a, pass)
}

// rehash brings a hash of older settings up to today's costs; a hasher that has no room leaves it to the
// next login.
func (s *Sessions) rehash(ctx context.Context, a account.Account, pass secret.String) error {
	hash, err := s.Password.Hash(ctx, pass)
	if errors.Is(err, password.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	return account.Rehash(ctx, s.Pool, a.ID, a.PasswordHash, hash)
}

func (s *Sessions) open(ctx context.Context, a account.Account, address string) (Tokens, error) {
	refresh, err := secret.Mint(s.Rand, secret.KindRefresh)
	if err != nil {
		return Tokens{}, fmt.Errorf("mint a refresh token: %w", err)
	}
	l := live{sessionID: s.IDs.New(id.Session), accountID: a.ID, username: a.Username, role: a.Role, epoch: a.Epoch}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		now := s.Clock.Now()
		if opened, err := insertSession(ctx, tx, l, address, now); err != nil || !opened {
			return cmp.Or(err, badLogin())
		}
		if err := insertRefresh(ctx, tx, secret.Hash(refresh.Reveal()), l.sessionID, now); err != nil {
			return err
		}
		return s.record(ctx, tx, l, "session.open", address)
	})
	if err != nil {
		return Tokens{}, err
	}
	return s.tokens(l, refresh)
}

// tokens signs a new access token of the session.
func (s *Sessions) tokens(l live, refresh secret.String) (Tokens, error) {
	access, err := s.Access.issue(l, s.IDs.New(id.TokenRow))
	if err != nil {
		return Tokens{}, err
	}
	return Tokens{Access: access, Refresh: refresh, Username: l.username, Role: l.role}, nil
}

// record writes what happened to the session as its person's own doing: before a login nobody is the caller.
func (s *Sessions) record(ctx context.Context, tx pgx.Tx, l live, action, address string) error {
	actor := s.Audit.Actor(ctx)
	actor.Kind, actor.ID, actor.Name = string(authn.KindUser), l.accountID, l.username
	actor.SessionID, actor.ClientAddr = l.sessionID, address
	return s.Audit.Record(ctx, tx, audit.Entry{Action: action, TargetKind: "session", TargetID: l.sessionID, Actor: &actor})
}

package session

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
	"github.com/signalbox-dev/signalbox/services/auth/internal/password"
)

// limiter limits attempts per client address.
type limiter interface {
	Take(ctx context.Context, address string) error
}

// hasher compares a password with a stored hash, and creates hashes. Checking an empty hash takes as long as checking
// any other hash, and the result is always false.
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
	// ByProvider is true if users sign in with a provider. Sessions opened by password are then invalid.
	ByProvider bool
}

// badLogin returns the error of a failed login. It is the same for every cause.
func badLogin() error {
	return fault.New(fault.Unauthenticated, "bad_login", "incorrect username or password")
}

// Login opens a session. An unknown user, a disabled user and a wrong password give the same error after the same work.
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
		return Tokens{}, fault.New(fault.Unavailable, "login_busy", "too many concurrent logins; try again in a second").WithRetryAfter(time.Second)
	}
	if err != nil {
		return Tokens{}, err
	}
	if !ok || a.DisabledAt != nil {
		return Tokens{}, badLogin()
	}
	tokens, err := s.Open(ctx, OpenRequest{
		AccountID: a.ID, Method: MethodPassword, ClientAddress: address, WithRefresh: true, epoch: a.Epoch,
	})
	if errors.Is(err, ErrAccountUnusable) {
		return Tokens{}, badLogin()
	}
	if err != nil || !s.Password.Outdated(a.PasswordHash) {
		return tokens, err
	}
	return tokens, s.rehash(ctx, a, pass)
}

// rehash replaces a hash that was made with other cost settings. If the hasher is busy, the next login replaces it.
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

package oidc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/limit"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// opener opens sessions: *session.Sessions.
type opener interface {
	OpenTx(ctx context.Context, tx pgx.Tx, r session.OpenRequest) (session.Tokens, error)
}

// SignIn takes a person to the provider and back.
type SignIn struct {
	Settings Settings
	Provider *Provider
	Sessions opener
	Pool     *pgxpool.Pool
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	Rand     io.Reader
	// PublicURL is the address that browsers reach.
	PublicURL func() string
}

// Begun is a sign-in that the browser takes to the provider.
type Begun struct {
	// URL is where the browser goes, Binding what it alone keeps.
	URL     string
	Binding secret.String
}

// Answer is what the browser brings back from the provider.
type Answer struct {
	State, Code, Binding secret.String
	// Issuer is who the answer says it is from, Error what the provider refused with; both may be empty.
	Issuer, Error string
	// Address is the browser's.
	Address string
}

// badSignIn is the one answer to what this browser did not begin here, or finished before.
func badSignIn() error {
	return fault.New(fault.Unauthenticated, "bad_sign_in", "The sign-in is unknown, used or expired; begin again")
}

func (s *SignIn) redirect() string { return s.PublicURL() + CallbackPath }

// Begin makes a sign-in that goes on at next, a path of this installation. Whoever asks is nobody yet, so the
// sign-ins of an address and those that wait are bounded.
func (s *SignIn) Begin(ctx context.Context, next, address string) (Begun, error) {
	t, err := newTicket(s.Rand)
	if err != nil {
		return Begun{}, err
	}
	to, err := s.Provider.authorizationURL(ctx, t, s.redirect())
	if err != nil {
		return Begun{}, err
	}
	sealed, err := t.seal(localPath(next))
	if err != nil {
		return Begun{}, err
	}
	if err := s.store(ctx, pending{ticket: t, sealedNext: sealed, addressKey: limit.Key(address)}); err != nil {
		return Begun{}, err
	}
	return Begun{URL: to, Binding: t.binding}, nil
}

// store keeps a sign-in, unless its address begins too many or too many wait in all.
func (s *SignIn) store(ctx context.Context, p pending) error {
	return pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockAddress(ctx, tx, p.addressKey); err != nil {
			return err
		}
		p.begunAt = s.Clock.Now()
		p.expiresAt = p.begunAt.Add(pendingTTL)
		begun, oldest, err := countBegun(ctx, tx, p.addressKey, p.begunAt.Add(-beginWindow))
		if err != nil {
			return err
		}
		if begun >= beginMost {
			return fault.New(fault.Limited, "oidc_rate", "Too many sign-ins begin at this address").
				WithRetryAfter(max(oldest.Add(beginWindow).Sub(p.begunAt), time.Second))
		}
		switch full, err := s.full(ctx, tx, p.begunAt); {
		case err != nil:
			return err
		case full:
			return fault.New(fault.Unavailable, "oidc_waiting", "Too many sign-ins wait for the provider").WithRetryAfter(time.Minute)
		}
		return insertSignIn(ctx, tx, p)
	})
}

func (s *SignIn) full(ctx context.Context, tx pgx.Tx, at time.Time) (bool, error) {
	waiting, err := countWaiting(ctx, tx, at, waitingMost)
	return waiting >= waitingMost, err
}

// Finish takes the provider's answer, once, and opens a session of the person's account.
func (s *SignIn) Finish(ctx context.Context, a Answer) (session.Tokens, string, error) {
	t := ticket{state: a.State, binding: a.Binding}
	if !t.wellFormed() {
		return session.Tokens{}, "", badSignIn()
	}
	sealed, err := useSignIn(ctx, s.Pool, t, s.Clock.Now())
	if err != nil {
		return session.Tokens{}, "", err
	}
	next, err := t.open(sealed)
	if err != nil {
		return session.Tokens{}, "", err
	}
	if err := s.Provider.checkAnswer(ctx, a); err != nil {
		return session.Tokens{}, "", err
	}
	who, err := s.Provider.exchange(ctx, t, a.Code.Reveal(), s.redirect())
	if err != nil {
		return session.Tokens{}, "", err
	}
	tokens, err := s.enter(ctx, who, a.Address)
	return tokens, next, err
}

// checkAnswer looks at what came through the browser: who it is from (RFC 9207, so that no other provider's
// answer is taken for ours), and whether it is a refusal.
func (p *Provider) checkAnswer(ctx context.Context, a Answer) error {
	m, err := p.metadata(ctx)
	if err != nil {
		return err
	}
	if (a.Issuer != "" || m.namesItself) && a.Issuer != p.settings.Issuer {
		return badAnswer(errors.New("the answer is of another issuer"))
	}
	switch a.Error {
	case "":
	case "server_error", "temporarily_unavailable":
		return badProvider(errors.New("authorization endpoint: "+a.Error), "failed; try again")
	default:
		return fault.New(fault.Unauthenticated, "oidc_refused", "The sign-in provider refused the sign-in: %s", orUnknown(word(a.Error)))
	}
	if a.Code.IsZero() || a.Code.Reveal() == "" {
		return badAnswer(errors.New("the answer has no code"))
	}
	return nil
}

func orUnknown(word string) string {
	if word == "" {
		return "unknown reason"
	}
	return word
}

// enter finds or makes the account, brings it up to what the provider says, and opens a session. A refusal is
// on record too, so it is told when that is committed.
func (s *SignIn) enter(ctx context.Context, who Identity, address string) (session.Tokens, error) {
	var tokens session.Tokens
	var refusal error
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		tokens, refusal = session.Tokens{}, nil
		v := visit{SignIn: s, tx: tx, who: who, address: address}
		accountID, err := v.admit(ctx)
		if errors.As(err, new(*refused)) {
			refusal = err
			return nil
		}
		if err != nil {
			return err
		}
		tokens, err = s.Sessions.OpenTx(ctx, tx, session.OpenRequest{
			AccountID: accountID, Method: session.MethodOIDC, ClientAddress: address, WithRefresh: true,
		})
		return err
	})
	switch {
	case refusal != nil:
		return session.Tokens{}, fault.New(fault.Forbidden, "oidc_not_admitted", "%s", refusal.Error())
	case errors.Is(err, session.ErrNoAccount):
		return session.Tokens{}, badSignIn()
	case err != nil:
		return session.Tokens{}, fmt.Errorf("sign in by the provider: %w", err)
	}
	return tokens, nil
}

// Sweep forgets sign-ins that have expired.
func (s *SignIn) Sweep(ctx context.Context) error { return sweepSignIns(ctx, s.Pool, s.Clock.Now()) }

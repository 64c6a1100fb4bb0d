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
	"github.com/signalbox-dev/signalbox/services/auth/internal/loginlimit"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

// opener opens sessions. *session.Sessions implements it.
type opener interface {
	OpenTx(ctx context.Context, tx pgx.Tx, r session.OpenRequest) (session.Tokens, error)
}

// SignIn runs sign-ins with the provider.
type SignIn struct {
	Settings Settings
	Provider *Provider
	Sessions opener
	Pool     *pgxpool.Pool
	Audit    *audit.Log
	Clock    clock.Clock
	IDs      *id.Source
	Rand     io.Reader
	// PublicURL returns the address at which browsers reach the installation.
	PublicURL func() string
}

// Started is a sign-in that has begun.
type Started struct {
	// URL is the address at the provider to which the browser goes. Binding is a secret that only the browser stores.
	URL     string
	Binding secret.String
}

// Callback is the response of the provider, which arrives through the browser.
type Callback struct {
	State, Code, Binding secret.String
	// Issuer is the `iss` parameter of the response, and Error is its error code. Both may be empty.
	Issuer, Error string
	// Address is the client address of the browser.
	Address string
}

// badSignIn returns the error for a sign-in that this browser has not begun, or that is finished or expired.
func badSignIn() error {
	return fault.New(fault.Unauthenticated, "bad_sign_in", "the sign-in is unknown, used or expired; start again")
}

func (s *SignIn) redirect() string { return s.PublicURL() + CallbackPath }

// Begin begins a sign-in. When the sign-in is finished, the browser goes to the given path of this installation. The
// caller is not authenticated, so Begin returns an error if the address has begun too many sign-ins or too many are
// unfinished in total.
func (s *SignIn) Begin(ctx context.Context, next, address string) (Started, error) {
	t, err := newTicket(s.Rand)
	if err != nil {
		return Started{}, err
	}
	to, err := s.Provider.authorizationURL(ctx, t, s.redirect())
	if err != nil {
		return Started{}, err
	}
	sealed, err := t.seal(localPath(next))
	if err != nil {
		return Started{}, err
	}
	if err := s.store(ctx, pending{ticket: t, sealedNext: sealed, addressKey: loginlimit.Key(address)}); err != nil {
		return Started{}, err
	}
	return Started{URL: to, Binding: t.binding}, nil
}

// store stores a sign-in, unless its address has begun too many or too many are unfinished in total.
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
			return fault.New(fault.Limited, "oidc_rate", "too many sign-ins from this address; try again in a minute").
				WithRetryAfter(max(oldest.Add(beginWindow).Sub(p.begunAt), time.Second))
		}
		switch full, err := s.full(ctx, tx, p.begunAt); {
		case err != nil:
			return err
		case full:
			return fault.New(fault.Unavailable, "oidc_waiting", "too many sign-ins are waiting for the provider; try again in a minute").WithRetryAfter(time.Minute)
		}
		return insertSignIn(ctx, tx, p)
	})
}

func (s *SignIn) full(ctx context.Context, tx pgx.Tx, at time.Time) (bool, error) {
	waiting, err := countWaiting(ctx, tx, at, waitingMost)
	return waiting >= waitingMost, err
}

// Finish accepts the provider's response, once, and opens a session of the user's account. It returns the tokens of the
// session and the path to which the browser goes.
func (s *SignIn) Finish(ctx context.Context, a Callback) (session.Tokens, string, error) {
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
	if err := s.Provider.checkResponse(ctx, a); err != nil {
		return session.Tokens{}, "", err
	}
	ident, err := s.Provider.exchange(ctx, t, a.Code.Reveal(), s.redirect())
	if err != nil {
		return session.Tokens{}, "", err
	}
	tokens, err := s.enter(ctx, ident, a.Address)
	return tokens, next, err
}

// checkResponse checks the parameters that came through the browser. The issuer must be this provider (RFC 9207), and
// the response must contain a code and no error.
func (p *Provider) checkResponse(ctx context.Context, a Callback) error {
	m, err := p.metadata(ctx)
	if err != nil {
		return err
	}
	if (a.Issuer != "" || m.namesItself) && a.Issuer != p.settings.Issuer {
		return badResponse(errors.New("the response is from another issuer"))
	}
	switch a.Error {
	case "":
	case "server_error", "temporarily_unavailable":
		return badProvider(errors.New("authorization endpoint: "+a.Error), "failed; try again")
	default:
		return fault.New(fault.Unauthenticated, "oidc_refused", "the sign-in provider refused the sign-in: %s", orUnknown(word(a.Error)))
	}
	if a.Code.IsZero() || a.Code.Reveal() == "" {
		return badResponse(errors.New("the response has no code"))
	}
	return nil
}

func orUnknown(word string) string {
	if word == "" {
		return "unknown reason"
	}
	return word
}

// enter finds or creates the account, updates it from the identity, and opens a session. A refusal must be recorded
// in the audit log, so enter returns it only after the commit.
func (s *SignIn) enter(ctx context.Context, ident Identity, address string) (session.Tokens, error) {
	var tokens session.Tokens
	var refusal error
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		tokens, refusal = session.Tokens{}, nil
		v := visit{SignIn: s, tx: tx, ident: ident, address: address}
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
	case errors.Is(err, session.ErrAccountUnusable):
		return session.Tokens{}, badSignIn()
	case err != nil:
		return session.Tokens{}, fmt.Errorf("sign in with the provider: %w", err)
	}
	return tokens, nil
}

// Sweep deletes sign-ins that have expired.
func (s *SignIn) Sweep(ctx context.Context) error { return sweepSignIns(ctx, s.Pool, s.Clock.Now()) }

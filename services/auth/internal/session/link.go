package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	// LinkTTL is how long a sign-in link is valid.
	LinkTTL = 10 * time.Minute
	// maxLinks is the maximum number of stored links. A new link replaces the oldest.
	maxLinks = 10
	// linkClient is the name of the client in the list of sessions.
	linkClient = "sign-in link"
)

// Link is a new sign-in link of an admin. Only its hash is stored.
type Link struct {
	Secret   secret.String
	Username string
	Expires  time.Time
}

// badLink returns the error of an unusable sign-in link. It is the same for every cause.
func badLink() error {
	return fault.New(fault.Unauthenticated, "bad_link", "the sign-in link is invalid, was already used or has expired; run signalboxd link on the server for another one")
}

// CreateLink creates a link that signs in the first enabled admin, once, within LinkTTL. The caller must show it only to
// the user who runs this process. CreateLink fails if users sign in with a provider.
func (s *Sessions) CreateLink(ctx context.Context) (Link, error) {
	if s.ByProvider {
		return Link{}, fault.New(fault.Unconfigured, "password_login_off", "users sign in with an OpenID provider, so there are no sign-in links")
	}
	token, err := secret.Mint(s.Rand, secret.KindLink)
	if err != nil {
		return Link{}, fmt.Errorf("create a sign-in link: %w", err)
	}
	now := s.Clock.Now()
	link := Link{Secret: token, Expires: now.Add(LinkTTL)}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		accountID, username, err := insertLink(ctx, tx, secret.Hash(token.Reveal()), now, link.Expires)
		if err != nil {
			return err
		}
		link.Username = username
		if err := trimLinks(ctx, tx, maxLinks); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{Action: "sign_in_link.create", TargetKind: "account", TargetID: accountID})
	})
	return link, err
}

// UseLink opens a session for the browser that presents a link. A single UPDATE marks the link as used, so only one of
// several concurrent calls succeeds. Like a session opened by password, it is invalid once a provider is configured, and
// a temporary password must still be changed.
func (s *Sessions) UseLink(ctx context.Context, token, address string) (Tokens, error) {
	if err := s.Limit.Take(ctx, address); err != nil {
		return Tokens{}, err
	}
	hash, ok := secret.Parse(secret.KindLink, token)
	if !ok {
		return Tokens{}, badLink()
	}
	var t Tokens
	err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		accountID, epoch, err := useLink(ctx, tx, hash, s.Clock.Now())
		if err != nil {
			return err
		}
		t, err = s.OpenTx(ctx, tx, OpenRequest{
			AccountID: accountID, Method: MethodPassword, ClientAddress: address, ClientName: linkClient, WithRefresh: true, epoch: epoch,
		})
		if err != nil {
			return err
		}
		l := live{sessionID: t.SessionID, accountID: t.AccountID, username: t.Username}
		return s.record(ctx, tx, l, "sign_in_link.use", address)
	})
	if errors.Is(err, errToken) || errors.Is(err, ErrAccountUnusable) {
		return Tokens{}, badLink()
	}
	return t, err
}

// SweepLinks deletes expired links.
func (s *Sessions) SweepLinks(ctx context.Context) error {
	return forgetLinks(ctx, s.Pool, s.Clock.Now())
}

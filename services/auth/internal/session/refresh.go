package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// badRefresh returns the error for an invalid refresh token. It is the same for every cause.
func badRefresh() error {
	return fault.New(fault.Unauthenticated, "bad_refresh", "the refresh token is missing, used or expired")
}

// Refresh exchanges a refresh token for a new one and an access token. A single UPDATE marks the token as used, so
// exactly one of several concurrent calls gets a new refresh token. Within reuseGrace, the others get only an access
// token. A token that is used again later was stolen, or the client is broken, so Refresh ends the session.
func (s *Sessions) Refresh(ctx context.Context, token, address string) (Tokens, error) {
	hash, ok := secret.Parse(secret.KindRefresh, token)
	if !ok {
		return Tokens{}, badRefresh()
	}
	next, err := secret.Mint(s.Rand, secret.KindRefresh)
	if err != nil {
		return Tokens{}, fmt.Errorf("mint a refresh token: %w", err)
	}
	var l live
	var kept secret.String
	refused := false
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		kept, refused = secret.String{}, false
		now := s.Clock.Now()
		sessionID, first, err := useRefresh(ctx, tx, hash, now)
		if err != nil {
			return err
		}
		if first {
			if l, err = extend(ctx, tx, sessionID, now.Add(RefreshTTL)); err != nil {
				return err
			}
			if s.over(l) {
				return errToken
			}
			kept = next
			return insertRefresh(ctx, tx, secret.Hash(next.Reveal()), sessionID, now, l.endsAt)
		}
		sessionID, usedAt, err := usedRefresh(ctx, tx, hash)
		if err != nil {
			return err
		}
		l, err = loadLive(ctx, tx, sessionID)
		if err == nil && s.over(l) {
			err = errToken
		}
		if err != nil || now.Sub(usedAt) <= reuseGrace {
			return err
		}
		// The revocation must be committed, so return the error outside of the transaction.
		refused = true
		ended, err := revoke(ctx, tx, sessionID, RevokedReuse, now)
		if err != nil || !ended { // a concurrent call has revoked and recorded it
			return err
		}
		return s.record(ctx, tx, l, "session.reuse", address)
	})
	switch {
	case errors.Is(err, errRefresh), errors.Is(err, errToken), errors.Is(err, ErrAccountUnusable), refused:
		return Tokens{}, badRefresh()
	case err != nil:
		return Tokens{}, err
	}
	return s.tokens(ctx, s.Pool, l, kept, nil)
}

package session

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

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
// exactly one of several concurrent calls creates the successor. Within reuseGrace, a repeat from the same address gets
// the same successor, as long as the successor is unused: the first response was probably lost. Any other repeat means
// that the token was stolen, or the client is broken, so Refresh ends the session.
func (s *Sessions) Refresh(ctx context.Context, token, address string) (Tokens, error) {
	hash, ok := secret.Parse(secret.KindRefresh, token)
	if !ok {
		return Tokens{}, badRefresh()
	}
	e := exchange{Sessions: s, token: token, hash: hash, address: address, salt: make([]byte, sha256.Size)}
	if _, err := io.ReadFull(s.Rand, e.salt); err != nil {
		return Tokens{}, fmt.Errorf("generate a salt: %w", err)
	}
	err := pg.InTx(ctx, s.Pool, e.run)
	switch {
	case errors.Is(err, errRefresh), errors.Is(err, errToken), errors.Is(err, ErrAccountUnusable), err == nil && e.refused:
		return Tokens{}, badRefresh()
	case err != nil:
		return Tokens{}, err
	}
	return s.tokens(ctx, s.Pool, e.live, e.next, nil)
}

// exchange is one exchange of a refresh token.
type exchange struct {
	*Sessions

	token, address string
	hash, salt     []byte
	// The result. refused means that the session was ended because the token was reused.
	live    live
	next    secret.String
	refused bool
}

// successor derives the next refresh token. It needs both the token, which only the client has, and the salt, which is
// stored only for a short time.
func successor(token string, salt []byte) (secret.String, error) {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write(salt)
	return secret.Mint(bytes.NewReader(mac.Sum(nil)), secret.KindRefresh)
}

// run is the transaction of the exchange.
func (e *exchange) run(ctx context.Context, tx pgx.Tx) error {
	e.live, e.next, e.refused = live{}, secret.String{}, false
	now := e.Clock.Now()
	sessionID, first, err := useRefresh(ctx, tx, e.hash, now)
	if err != nil {
		return err
	}
	if !first {
		return e.repeat(ctx, tx, now)
	}
	if e.live, err = extend(ctx, tx, sessionID, now.Add(RefreshTTL)); err != nil {
		return err
	}
	if e.over(e.live) {
		return errToken
	}
	if e.next, err = successor(e.token, e.salt); err != nil {
		return err
	}
	if err := insertSalt(ctx, tx, e.hash, e.salt, e.address, now); err != nil {
		return err
	}
	return insertRefresh(ctx, tx, secret.Hash(e.next.Reveal()), sessionID, now, e.live.endsAt)
}

// repeat handles a token that has been used before.
func (e *exchange) repeat(ctx context.Context, tx pgx.Tx, now time.Time) error {
	sessionID, err := usedRefresh(ctx, tx, e.hash)
	if err != nil {
		return err
	}
	e.live, err = loadLive(ctx, tx, sessionID)
	if err == nil && e.over(e.live) {
		err = errToken
	}
	if err != nil {
		return err
	}
	salt, err := findSalt(ctx, tx, e.hash, e.address, now.Add(-reuseGrace))
	if err != nil {
		return err
	}
	if salt != nil {
		if e.next, err = successor(e.token, salt); err != nil {
			return err
		}
		unused, err := unusedRefresh(ctx, tx, secret.Hash(e.next.Reveal()))
		if err != nil || unused {
			return err
		}
	}
	// The revocation must be committed, so the error is returned outside of the transaction.
	e.refused = true
	ended, err := revoke(ctx, tx, sessionID, RevokedReuse, now)
	if err != nil || !ended { // if not ended, a concurrent call has ended the session and recorded that
		return err
	}
	return e.record(ctx, tx, e.live, "session.reuse", e.address)
}

// ForgetSalts deletes the salts that are no longer used. It must run often: with a salt, the holder of a used token can
// derive its successor.
func (s *Sessions) ForgetSalts(ctx context.Context) error {
	return forgetSalts(ctx, s.Pool, s.Clock.Now().Add(-reuseGrace))
}

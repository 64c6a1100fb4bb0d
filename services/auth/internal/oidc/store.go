package oidc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

// pending is a sign-in that has begun and is not finished.
type pending struct {
	ticket ticket
	// sealedNext is the encrypted path to which the browser goes after the sign-in.
	sealedNext         []byte
	addressKey         string
	begunAt, expiresAt time.Time
}

// lockAddress lets only one sign-in of an address begin at a time, so that the count is exact.
func lockAddress(ctx context.Context, tx pgx.Tx, addressKey string) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('oidc-begin:' || $1, 0))`, addressKey); err != nil {
		return fmt.Errorf("lock the sign-ins of an address: %w", err)
	}
	return nil
}

// countBegun counts the sign-ins that an address has begun after a time. It also returns the time at which the oldest
// of them began.
func countBegun(ctx context.Context, tx pgx.Tx, addressKey string, since time.Time) (n int, oldest time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT count(*), COALESCE(min(begun_at), $2) FROM oidc_sign_in WHERE address_key = $1 AND begun_at > $2`,
		addressKey, since).Scan(&n, &oldest)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("count the sign-ins of an address: %w", err)
	}
	return n, oldest, nil
}

// countWaiting counts the unfinished sign-ins, up to the given number.
func countWaiting(ctx context.Context, tx pgx.Tx, at time.Time, most int) (n int, err error) {
	err = tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM oidc_sign_in WHERE expires_at > $1 AND used_at IS NULL LIMIT $2) waiting`,
		at, most).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the waiting sign-ins: %w", err)
	}
	return n, nil
}

func insertSignIn(ctx context.Context, tx pgx.Tx, p pending) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO oidc_sign_in (state_hash, binding_hash, sealed_next, address_key, begun_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		secret.Hash(p.ticket.state.Reveal()), secret.Hash(p.ticket.binding.Reveal()), p.sealedNext, p.addressKey, p.begunAt, p.expiresAt)
	if err != nil {
		return fmt.Errorf("store the sign-in: %w", err)
	}
	return nil
}

// useSignIn marks a sign-in as used and returns its encrypted path. Of concurrent calls only one succeeds. A call
// with the binding of another browser fails, and does not mark the sign-in.
func useSignIn(ctx context.Context, q pg.Querier, t ticket, at time.Time) (sealedNext []byte, err error) {
	err = q.QueryRow(ctx, `
		UPDATE oidc_sign_in SET used_at = $3
		WHERE state_hash = $1 AND binding_hash = $2 AND used_at IS NULL AND expires_at > $3
		RETURNING sealed_next`, secret.Hash(t.state.Reveal()), secret.Hash(t.binding.Reveal()), at).Scan(&sealedNext)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, badSignIn()
	}
	if err != nil {
		return nil, fmt.Errorf("mark the sign-in as used: %w", err)
	}
	return sealedNext, nil
}

// sweepAtOnce is the maximum number of rows that one statement deletes.
const sweepAtOnce = 10_000

func sweepSignIns(ctx context.Context, q pg.Querier, at time.Time) error {
	for {
		tag, err := q.Exec(ctx, `DELETE FROM oidc_sign_in WHERE state_hash IN (
			SELECT state_hash FROM oidc_sign_in WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)`, at, sweepAtOnce)
		if err != nil {
			return fmt.Errorf("delete expired sign-ins: %w", err)
		}
		if tag.RowsAffected() < sweepAtOnce {
			return nil
		}
	}
}

// lockIdentity lets only one sign-in of an identity run at a time, even if the identity has no account yet.
func lockIdentity(ctx context.Context, tx pgx.Tx, ident Identity) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('oidc:' || $1 || ' ' || $2, 0))`, ident.Issuer, ident.Subject)
	if err != nil {
		return fmt.Errorf("lock the identity: %w", err)
	}
	return nil
}

func accountOf(ctx context.Context, tx pgx.Tx, ident Identity) (account.Account, error) {
	var accountID string
	err := tx.QueryRow(ctx, `SELECT account_id FROM oidc_identity WHERE issuer = $1 AND subject = $2`, ident.Issuer, ident.Subject).Scan(&accountID)
	if errors.Is(err, pgx.ErrNoRows) {
		return account.Account{}, account.ErrUnknown
	}
	if err != nil {
		return account.Account{}, fmt.Errorf("load the identity: %w", err)
	}
	return account.ByID(ctx, tx, accountID)
}

// insertAccount creates an account. It returns false if the username is taken, ignoring case
// (account_username_lower_key).
func insertAccount(ctx context.Context, tx pgx.Tx, a account.Account, at time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `
		INSERT INTO account (id, username, role, email, password_hash, created_at) VALUES ($1, $2, $3, $4, '', $5)
		ON CONFLICT DO NOTHING`, a.ID, a.Username, a.Role, a.Email, at)
	if err != nil {
		return false, fmt.Errorf("create the account: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

func insertIdentity(ctx context.Context, tx pgx.Tx, ident Identity, accountID string, at time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO oidc_identity (issuer, subject, account_id, created_at, last_sign_in_at) VALUES ($1, $2, $3, $4, $4)`,
		ident.Issuer, ident.Subject, accountID, at)
	if err != nil {
		return fmt.Errorf("store the identity: %w", err)
	}
	return nil
}

func touchIdentity(ctx context.Context, tx pgx.Tx, ident Identity, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE oidc_identity SET last_sign_in_at = $3 WHERE issuer = $1 AND subject = $2`, ident.Issuer, ident.Subject, at)
	if err != nil {
		return fmt.Errorf("record the time of the sign-in: %w", err)
	}
	return nil
}

func promote(ctx context.Context, tx pgx.Tx, accountID string) error {
	if _, err := tx.Exec(ctx, `UPDATE account SET role = 'admin' WHERE id = $1`, accountID); err != nil {
		return fmt.Errorf("promote the account: %w", err)
	}
	return nil
}

// demote makes an admin an operator. It returns false if no other enabled admin can sign in with the issuer. It locks
// all admin rows in the order of their ids. Of two concurrent demotions, the second therefore sees the result of the
// first.
func demote(ctx context.Context, tx pgx.Tx, accountID, issuer string) (bool, error) {
	if _, err := tx.Exec(ctx, `SELECT FROM account WHERE role = 'admin' ORDER BY id FOR NO KEY UPDATE`); err != nil {
		return false, fmt.Errorf("lock the admins: %w", err)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE account SET role = 'operator'
		WHERE id = $1 AND EXISTS (
			SELECT FROM account o JOIN oidc_identity i ON i.account_id = o.id
			WHERE o.id <> $1 AND o.role = 'admin' AND o.disabled_at IS NULL AND i.issuer = $2)`, accountID, issuer)
	if err != nil {
		return false, fmt.Errorf("demote the account: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

func updateEmail(ctx context.Context, tx pgx.Tx, accountID, email string) error {
	if _, err := tx.Exec(ctx, `UPDATE account SET email = $2 WHERE id = $1`, accountID, email); err != nil {
		return fmt.Errorf("change the e-mail address: %w", err)
	}
	return nil
}

package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// ErrUnknown means that the account does not exist.
var ErrUnknown = errors.New("no such account")

const columns = `id, username, role, email, password_hash, epoch, disabled_at`

// ByUsername returns the account with exactly this username, or ErrUnknown. A username with a zero byte is unknown,
// because Postgres cannot store it.
func ByUsername(ctx context.Context, q pg.Querier, username string) (Account, error) {
	if strings.ContainsRune(username, 0) {
		return Account{}, ErrUnknown
	}
	return one(q.QueryRow(ctx, `SELECT `+columns+` FROM account WHERE username = $1`, username))
}

// ByID returns the account with this id, or ErrUnknown.
func ByID(ctx context.Context, q pg.Querier, id string) (Account, error) {
	return one(q.QueryRow(ctx, `SELECT `+columns+` FROM account WHERE id = $1`, id))
}

// one scans a row into an account, and the row's further columns into the given pointers.
func one(row pgx.Row, further ...any) (Account, error) {
	var a Account
	err := row.Scan(append([]any{&a.ID, &a.Username, &a.Role, &a.Email, &a.PasswordHash, &a.Epoch, &a.DisabledAt}, further...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return Account{}, ErrUnknown
	}
	if err != nil {
		return Account{}, fmt.Errorf("load the account: %w", err)
	}
	return a, nil
}

// Rehash replaces a password hash with one that has the current cost settings, unless the stored hash has changed since
// it was read. The password stays the same, so the account's tokens stay valid.
func Rehash(ctx context.Context, q pg.Querier, accountID, from, to string) error {
	if _, err := q.Exec(ctx, `UPDATE account SET password_hash = $3 WHERE id = $1 AND password_hash = $2`, accountID, from, to); err != nil {
		return fmt.Errorf("replace the password hash: %w", err)
	}
	return nil
}

// lockFirstStart lets only one process at a time create the first admin. The lock is held until the transaction ends.
func lockFirstStart(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('bootstrap', 0))`); err != nil {
		return fmt.Errorf("take the lock of the first start: %w", err)
	}
	return nil
}

func anyAccount(ctx context.Context, q pg.Querier) (bool, error) {
	var exists bool
	if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM account)`).Scan(&exists); err != nil {
		return false, fmt.Errorf("check for accounts: %w", err)
	}
	return exists, nil
}

// insertFirst writes the first admin, the default project and the admin's membership in it.
func insertFirst(ctx context.Context, tx pgx.Tx, accountID, projectID, username, hash string, drawn bool, at time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO account (id, username, role, password_hash, must_change_password, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		accountID, username, RoleAdmin, hash, drawn, at)
	if err != nil {
		return fmt.Errorf("create the first admin: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO project (id, key, name, visibility, created_at) VALUES ($1, 'default', 'Default', 'all', $2)`,
		projectID, at)
	if err != nil {
		return fmt.Errorf("create the default project: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO membership (project_id, account_id, role) VALUES ($1, $2, 'owner')`, projectID, accountID)
	if err != nil {
		return fmt.Errorf("make the first admin an owner of the default project: %w", err)
	}
	return nil
}

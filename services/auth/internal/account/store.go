package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
)

// ErrUnknown says that there is no such account.
var ErrUnknown = errors.New("no such account")

const columns = `id, username, role, email, password_hash, epoch, disabled_at`

// ByUsername finds an account by its exact name.
func ByUsername(ctx context.Context, q pg.Querier, username string) (Account, error) {
	return one(q.QueryRow(ctx, `SELECT `+columns+` FROM account WHERE username = $1`, username))
}

// ByID finds an account.
func ByID(ctx context.Context, q pg.Querier, id string) (Account, error) {
	return one(q.QueryRow(ctx, `SELECT `+columns+` FROM account WHERE id = $1`, id))
}

func one(row pgx.Row) (Account, error) {
	var a Account
	err := row.Scan(&a.ID, &a.Username, &a.Role, &a.Email, &a.PasswordHash, &a.Epoch, &a.DisabledAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Account{}, ErrUnknown
	}
	if err != nil {
		return Account{}, fmt.Errorf("load the account: %w", err)
	}
	return a, nil
}

// MaxMemberships bounds what a caller identity carries (some 32 KB of them).
const MaxMemberships = 500

// Memberships lists the account's roles in projects, by project.
func Memberships(ctx context.Context, q pg.Querier, accountID string) ([]Membership, error) {
	rows, err := q.Query(ctx, `
		SELECT project_id, role FROM membership WHERE account_id = $1 ORDER BY project_id LIMIT $2`, accountID, MaxMemberships)
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Membership])
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	return list, nil
}

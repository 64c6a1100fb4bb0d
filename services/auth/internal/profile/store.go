package profile

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/auth/internal/account"
)

const columns = `id, username, role, display_name, email, locale, tz, theme, default_project_id, password_hash = ''`

func scan(row pgx.Row, accountID string) (p Profile, err error) {
	err = row.Scan(&p.ID, &p.Username, &p.Role, &p.DisplayName, &p.Email, &p.Locale, &p.TZ, &p.Theme, &p.ProjectID, &p.provided)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, account.NotFound(accountID)
	}
	if err != nil {
		return p, fmt.Errorf("load the profile: %w", err)
	}
	return p, nil
}

func get(ctx context.Context, q pg.Querier, accountID string) (Profile, error) {
	return scan(q.QueryRow(ctx, `SELECT `+columns+` FROM account WHERE id = $1`, accountID), accountID)
}

// lock loads a profile and blocks other changes of the account until the transaction ends.
func lock(ctx context.Context, tx pgx.Tx, accountID string) (Profile, error) {
	return scan(tx.QueryRow(ctx, `SELECT `+columns+` FROM account WHERE id = $1 FOR NO KEY UPDATE`, accountID), accountID)
}

func save(ctx context.Context, tx pgx.Tx, p Profile) error {
	_, err := tx.Exec(ctx, `UPDATE account SET display_name = $2, email = $3, locale = $4, tz = $5, theme = $6, default_project_id = $7
		WHERE id = $1`, p.ID, p.DisplayName, p.Email, p.Locale, p.TZ, p.Theme, p.ProjectID)
	if err != nil {
		return fmt.Errorf("update the profile: %w", err)
	}
	return nil
}

package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// userColumns derives the login method from the password hash. The hash is empty only for accounts that an OpenID
// sign-in created.
const userColumns = `a.id, a.username, a.role, a.email, a.display_name, CASE WHEN a.password_hash = '' THEN 'oidc' ELSE 'password' END,
	a.created_at, a.disabled_at, greatest(a.last_login_at, (SELECT max(s.created_at) FROM session s WHERE s.account_id = a.id))`

func scanUser(row pgx.Row) (u User, err error) {
	err = row.Scan(&u.ID, &u.Username, &u.Role, &u.Email, &u.DisplayName, &u.Login, &u.CreatedAt, &u.DisabledAt, &u.LastLoginAt)
	return u, err
}

func one404(u User, err error, userID string) (User, error) {
	if errors.Is(err, pgx.ErrNoRows) {
		return User{}, NotFound(userID)
	}
	if err != nil {
		return User{}, fmt.Errorf("load the user: %w", err)
	}
	return u, nil
}

func getUser(ctx context.Context, q pg.Querier, userID string) (User, error) {
	u, err := scanUser(q.QueryRow(ctx, `SELECT `+userColumns+` FROM account a WHERE a.id = $1`, userID))
	return one404(u, err, userID)
}

// lockUser loads an account and blocks other changes to it until the transaction ends.
func lockUser(ctx context.Context, tx pgx.Tx, userID string) (User, error) {
	u, err := scanUser(tx.QueryRow(ctx, `SELECT `+userColumns+` FROM account a WHERE a.id = $1 FOR NO KEY UPDATE OF a`, userID))
	return one404(u, err, userID)
}

// lockAdmins locks all admin rows until the transaction ends. It returns how many enabled admins can sign in: with a
// password, or, if an issuer is given, with an identity of that issuer. It does not count the admin with the given id.
func lockAdmins(ctx context.Context, tx pgx.Tx, except, issuer string) (others int, err error) {
	rows, err := tx.Query(ctx, `SELECT id, disabled_at IS NULL AND CASE WHEN $1 = '' THEN password_hash <> ''
			ELSE EXISTS (SELECT FROM oidc_identity i WHERE i.account_id = a.id AND i.issuer = $1) END
		FROM account a WHERE role = 'admin' ORDER BY id FOR NO KEY UPDATE OF a`, issuer)
	if err != nil {
		return 0, fmt.Errorf("lock the admins: %w", err)
	}
	var id string
	var enters bool
	_, err = pgx.ForEachRow(rows, []any{&id, &enters}, func() error {
		if enters && id != except {
			others++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("lock the admins: %w", err)
	}
	return others, nil
}

// matching selects users whose username, e-mail address or display name contains $1, ignoring case.
const matching = `($1 = '' OR strpos(lower(a.username), lower($1)) > 0 OR strpos(lower(a.email), lower($1)) > 0
	OR strpos(lower(a.display_name), lower($1)) > 0)`

func listUsers(ctx context.Context, q pg.Querier, part string, p request.Page) (users []User, total int, err error) {
	if err := q.QueryRow(ctx, `SELECT count(*) FROM account a WHERE `+matching, part).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count users: %w", err)
	}
	rows, err := q.Query(ctx, `SELECT `+userColumns+` FROM account a WHERE `+matching+`
		ORDER BY lower(a.username), a.id LIMIT $2 OFFSET $3`, part, p.FetchLimit(), p.Offset)
	if err != nil {
		return nil, 0, fmt.Errorf("list users: %w", err)
	}
	users, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (User, error) { return scanUser(row) })
	if err != nil {
		return nil, 0, fmt.Errorf("list users: %w", err)
	}
	return users, total, nil
}

// insertUser inserts an account. It returns false if the username is taken.
func insertUser(ctx context.Context, tx pgx.Tx, u User, hash string, drawn bool) (bool, error) {
	tag, err := tx.Exec(ctx, `
		INSERT INTO account (id, username, role, email, display_name, password_hash, must_change_password, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
		u.ID, u.Username, u.Role, u.Email, u.DisplayName, hash, drawn, u.CreatedAt)
	if err != nil {
		return false, fmt.Errorf("create the account: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

func updateUser(ctx context.Context, tx pgx.Tx, u User, endTokens bool) error {
	_, err := tx.Exec(ctx, `UPDATE account SET role = $2, email = $3, display_name = $4, disabled_at = $5,
		epoch = epoch + CASE WHEN $6 THEN 1 ELSE 0 END WHERE id = $1`, u.ID, u.Role, u.Email, u.DisplayName, u.DisabledAt, endTokens)
	if err != nil {
		return fmt.Errorf("update the account: %w", err)
	}
	return nil
}

// setPassword changes the password of a locked account and ends its tokens. The parameter shown states whether
// someone other than the user has seen the password; the user must then change it.
func setPassword(ctx context.Context, tx pgx.Tx, userID, hash string, shown bool) error {
	_, err := tx.Exec(ctx, `UPDATE account SET password_hash = $2, must_change_password = $3, epoch = epoch + 1 WHERE id = $1`, userID, hash, shown)
	if err != nil {
		return fmt.Errorf("set the password: %w", err)
	}
	return nil
}

// ChangePassword stores the password that the user chose and ends the account's tokens. It returns a conflict if the
// account has been disabled or its epoch has increased since the caller read it.
func ChangePassword(ctx context.Context, tx pgx.Tx, a Account, hash string) error {
	tag, err := tx.Exec(ctx, `UPDATE account SET password_hash = $3, must_change_password = false, epoch = epoch + 1
		WHERE id = $1 AND epoch = $2 AND disabled_at IS NULL`, a.ID, a.Epoch, hash)
	if err != nil {
		return fmt.Errorf("change the password: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fault.New(fault.Conflict, "password_changed", "the account has changed since you signed in; sign in again")
	}
	return nil
}

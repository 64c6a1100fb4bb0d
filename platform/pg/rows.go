package pg

import "github.com/jackc/pgx/v5"

// One returns the only row of a query. Each exported field of T either names its column in the `db` tag, or has the
// name of the column; underscores and letter case are ignored. If there is no row, the error is pgx.ErrNoRows.
func One[T any](rows pgx.Rows, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[T])
}

// All returns all rows of a query. It assigns the columns to the fields like One.
func All[T any](rows pgx.Rows, err error) ([]*T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[T])
}

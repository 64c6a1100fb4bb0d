package pg

import "github.com/jackc/pgx/v5"

// One returns the only row of a query as a T. Each exported field of T has the name of a column, without underscores and
// in any case, or names the column in its `db` tag. If there is no row, the error is pgx.ErrNoRows.
func One[T any](rows pgx.Rows, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[T])
}

// All returns the rows of a query, each like One.
func All[T any](rows pgx.Rows, err error) ([]*T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[T])
}

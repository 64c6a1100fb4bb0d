package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// SealedColumn is a database column with encrypted values: the names of its table and column, and a SQL expression of
// type text for the key of the row. A value is bound to its row by the additional data "<table>.<column>:<key>".
type SealedColumn struct{ Table, Name, Key string }

// batch is the number of values that one query reads.
const batch = 200

// value is one encrypted value.
type value struct {
	key    string
	sealed []byte
}

// Reseal wraps the data keys of all values in the columns with the first key of the ring. It returns the number of
// values that it changed.
//
// Each value stays encrypted with its own data key; only the wrapping of that key changes. A value that another
// process changes at the same time is not overwritten. A value that cannot be decrypted is reported (at most five per
// column) and does not stop the others. Rotate a key in these steps, so that every process can always read every value:
//  1. Add the new key after the old one and restart all processes.
//  2. Move the new key to the front and restart all processes.
//  3. When Reseal has wrapped all values with the new key, remove the old key.
func Reseal(ctx context.Context, db Querier, ring *secret.Keyring, columns ...SealedColumn) (moved int, err error) {
	faults := make([]error, 0, len(columns))
	for _, c := range columns {
		n, err := c.run(ctx, db, ring)
		moved += n
		faults = append(faults, err)
	}
	return moved, errors.Join(faults...)
}

func (c SealedColumn) run(ctx context.Context, db Querier, ring *secret.Keyring) (moved int, _ error) {
	var faults []error
	for after := ""; ; {
		values, err := c.next(ctx, db, after)
		if err != nil {
			return moved, errors.Join(append(faults, err)...)
		}
		for _, v := range values {
			ok, err := c.move(ctx, db, ring, v)
			if err != nil && ctx.Err() != nil {
				return moved, err
			}
			if err != nil && len(faults) < maxFaults {
				faults = append(faults, err)
			}
			if ok {
				moved++
			}
			after = v.key
		}
		if len(values) < batch {
			return moved, errors.Join(faults...)
		}
	}
}

// maxFaults is the maximum number of errors reported per column.
const maxFaults = 5

func (c SealedColumn) next(ctx context.Context, db Querier, after string) ([]value, error) {
	rows, err := db.Query(ctx, fmt.Sprintf(`SELECT %[1]s, %[2]s FROM %[3]s WHERE %[2]s IS NOT NULL AND %[1]s > $1 ORDER BY %[1]s LIMIT $2`,
		c.Key, c.Name, c.Table), after, batch)
	if err != nil {
		return nil, fmt.Errorf("read %s.%s: %w", c.Table, c.Name, err)
	}
	values, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v value, err error) { return v, row.Scan(&v.key, &v.sealed) })
	if err != nil {
		return nil, fmt.Errorf("read %s.%s: %w", c.Table, c.Name, err)
	}
	return values, nil
}

// move wraps the data key of one value with the first key of the ring, unless that key already wraps it. It does not
// overwrite a value that has changed since it was read.
func (c SealedColumn) move(ctx context.Context, db Querier, ring *secret.Keyring, v value) (bool, error) {
	place := c.Table + "." + c.Name + ":" + v.key
	next, changed, err := ring.Rewrap(v.sealed, place)
	if err != nil || !changed {
		return false, wrapped(err, place)
	}
	tag, err := db.Exec(ctx, fmt.Sprintf(`UPDATE %[3]s SET %[2]s = $3 WHERE %[1]s = $1 AND %[2]s = $2`, c.Key, c.Name, c.Table),
		v.key, v.sealed, next)
	return err == nil && tag.RowsAffected() == 1, wrapped(err, place)
}

func wrapped(err error, place string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("re-encrypt the data key of %s: %w", place, err)
}

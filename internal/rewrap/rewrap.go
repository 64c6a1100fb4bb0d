// Package rewrap moves sealed values to the key that a keyring seals with, so that a former key can be taken
// out of the ring. It promises that no value changes but in its wrapping, that a value which was written
// meanwhile is left alone, and that one which does not open is named and stops nothing else.
//
// A key is rotated in three steps, so that no process meets a key that it does not have: the new key is put
// behind the old one and all processes are started again; it is put in front, and again; once this has gone
// through, the old one is taken out.
package rewrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Column is where a schema keeps sealed values: the names as a migration wrote them, and the expression of
// a row's key, which is text. A value is sealed for the place "<table>.<column>:<key>".
type Column struct{ Table, Name, Key string }

// batch is how many values are moved between two looks.
const batch = 200

// value is one sealed value.
type value struct {
	key    string
	sealed []byte
}

// Run moves all values of the columns and says how many it moved.
func Run(ctx context.Context, db pg.Querier, ring *secret.Keyring, columns ...Column) (moved int, err error) {
	faults := make([]error, 0, len(columns))
	for _, c := range columns {
		n, err := c.run(ctx, db, ring)
		moved += n
		faults = append(faults, err)
	}
	return moved, errors.Join(faults...)
}

func (c Column) run(ctx context.Context, db pg.Querier, ring *secret.Keyring) (moved int, _ error) {
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

// maxFaults is how many values of a column are named that do not open.
const maxFaults = 5

func (c Column) next(ctx context.Context, db pg.Querier, after string) ([]value, error) {
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

// move wraps one value anew where it is not under the sealing key; what was written meanwhile stays.
func (c Column) move(ctx context.Context, db pg.Querier, ring *secret.Keyring, v value) (bool, error) {
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
	return fmt.Errorf("wrap %s anew: %w", place, err)
}

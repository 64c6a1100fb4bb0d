package groupcommit

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// row is a row that the statement sql inserts.
type row struct {
	sql    string
	values []any
}

// Insert adds a row, which is stored with the rest of the group. The parameters of sql are arrays, one for each value of
// the row, because one execution inserts the rows of the whole group: an execution for each row would cost the database
// more than the row itself.
func (r *Run) Insert(sql string, values ...any) { r.rows = append(r.rows, row{sql, values}) }

// maxStatementBytes is the size of the byte strings of a statement from which on further rows get another statement. Postgres
// holds the parameters of a statement in memory.
const maxStatementBytes = 1 << 20

// insert queues one statement for all rows that have the same statement, unless they are large.
func insert(batch *pgx.Batch, rows []row) {
	all := map[string]*columns{}
	for _, r := range rows {
		of := all[r.sql]
		if of == nil {
			of = &columns{}
			all[r.sql] = of
		}
		if of.add(r.values...); of.bytes >= maxStatementBytes {
			batch.Queue(r.sql, of.params...)
			delete(all, r.sql)
		}
	}
	for sql, of := range all {
		batch.Queue(sql, of.params...)
	}
}

// columns are the parameters of a statement whose parameters are arrays.
type columns struct {
	params []any // a slice of the type of its values each
	bytes  int   // the size of the byte strings
}

// add adds a row.
func (c *columns) add(values ...any) {
	if c.params == nil {
		c.params = make([]any, len(values))
	}
	for i, v := range values {
		c.params[i] = with(c.params[i], v)
		if b, ok := v.([]byte); ok {
			c.bytes += len(b)
		}
	}
}

// with returns the slice of a column with one more value.
func with(column, value any) any {
	switch v := value.(type) {
	case string:
		return appended(column, v)
	case []byte:
		return appended(column, v)
	case bool:
		return appended(column, v)
	case int:
		return appended(column, v)
	case int32:
		return appended(column, v)
	case *int32:
		return appended(column, v)
	case int64:
		return appended(column, v)
	case time.Time:
		return appended(column, v)
	default:
		return appended(column, v)
	}
}

func appended[T any](column any, value T) any {
	list, _ := column.([]T)
	return append(list, value)
}

package upgrade

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// tries limits how many rows are tried until the constraints of a table accept one.
const tries = 300

// fill inserts two rows into each table: one with a value in each column, and one that leaves out what may be left out. A
// table for one row gets one. It returns the tables that have no row then, because their constraints accepted none.
// Foreign keys and triggers are off.
func (d *database) fill(t *testing.T) []string {
	t.Helper()
	var unfilled []string
	for _, name := range d.names {
		conn := open(t, d.AdminURL(), name)
		_, err := conn.Exec(t.Context(), `SET session_replication_role = replica`)
		require.NoError(t, err)
		for _, table := range rows[struct{ Name string }](t, conn, `SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'p'`, name) {
			_, err := conn.Exec(t.Context(), `CREATE TABLE `+table.Name+`_other PARTITION OF `+table.Name+` DEFAULT`)
			require.NoError(t, err)
		}
		s, failed := catalogue(t, conn, name), map[string]error{}
		for table := range s.rows {
			if strings.HasPrefix(table, "river_") || strings.HasPrefix(table, "goose_") {
				continue
			}
			f := filler{conn: conn, schema: s, table: table, random: rand.New(rand.NewPCG(1, 2))}
			full, bare := f.row(t, true), f.row(t, false)
			failed[table] = errors.Join(full, bare)
		}
		for table, n := range catalogue(t, conn, name).rows {
			if err := failed[table]; n == 0 && err != nil {
				unfilled = append(unfilled, fmt.Sprint(name, ".", table, ": ", err))
			}
		}
	}
	slices.Sort(unfilled)
	return unfilled
}

// filler inserts rows into one table.
type filler struct {
	conn   *pgx.Conn
	schema *schema
	table  string
	random *rand.Rand
}

// row inserts one row, with a value in each column or only in those that need one.
func (f *filler) row(t *testing.T, full bool) error {
	t.Helper()
	values := map[string]string{}
	draw := func(c column, broken bool) {
		if full || broken || (c.NotNull && !c.HasDefault) {
			values[c.Name] = f.value(c, full)
		}
	}
	for _, c := range f.columns() {
		draw(c, false)
	}
	var err error
	for range tries {
		if err = f.insert(t, values); err == nil {
			return nil
		}
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused)
		broken := f.schema.constraints[f.table+"."+refused.ConstraintName].Columns
		for _, c := range f.columns() {
			if broken == nil || slices.Contains(broken, c.Name) {
				draw(c, broken != nil)
			}
		}
	}
	return err
}

func (f *filler) columns() []column {
	var found []column
	for _, c := range f.schema.columns {
		if c.Table == f.table {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b column) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func (f *filler) insert(t *testing.T, values map[string]string) error {
	t.Helper()
	var names, literals []string
	for name, value := range values {
		names, literals = append(names, pgx.Identifier{name}.Sanitize()), append(literals, value)
	}
	table := pgx.Identifier{f.table}.Sanitize()
	sql := fmt.Sprintf(`INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)`, table, strings.Join(names, ", "), strings.Join(literals, ", "))
	if len(names) == 0 {
		sql = `INSERT INTO ` + table + ` DEFAULT VALUES`
	}
	_, err := f.conn.Exec(t.Context(), sql)
	return err
}

// value draws a value for the column: a text in one of its constraints, or one of its type.
func (f *filler) value(c column, full bool) string {
	texts, length := []string{}, 1+f.random.IntN(32)
	for _, o := range f.schema.constraints {
		if o.Table == f.table && slices.Contains(o.Columns, c.Name) {
			for _, found := range number.FindAllString(o.Definition, -1) {
				if n, err := strconv.Atoi(found); err == nil && n < 10_000 && f.random.IntN(2) == 0 {
					length = n
				}
			}
			for _, text := range literal.FindAllString(o.Definition, -1) {
				texts = append(texts, strings.TrimSuffix(strings.TrimSuffix(text, ", "), "::text"))
			}
		}
	}
	if !c.NotNull && !full {
		texts = append(texts, "NULL")
	}
	slices.Sort(texts)
	texts = append(texts, ofType(c.Type, f.random, length)...)
	picked := texts[f.random.IntN(len(texts))]
	if f.random.IntN(4) == 0 && !c.NotNull {
		picked = "NULL"
	}
	return "(" + picked + ")::" + c.Type
}

// number matches a number in the definition of a constraint.
var number = regexp.MustCompile(`\b\d+\b`)

// ofType returns some values of a type, if possible of a length.
func ofType(name string, random *rand.Rand, length int) []string {
	if strings.HasSuffix(name, "[]") {
		return []string{"'{}'", "'{1}'", "'{1,2}'", "'{{1,2}}'"}
	}
	switch name {
	case "jsonb", "json":
		return []string{"'{}'", "'[]'"}
	case "boolean":
		return []string{"'t'", "'f'"}
	case "bytea":
		return []string{`'\x'`, `'\x` + strings.Repeat(fmt.Sprintf("%02x", random.IntN(256)), length) + `'`}
	case "text":
		return []string{"'a'", "''", "'" + strings.Repeat(string(rune('a'+random.IntN(26))), length) + "'", "'{}'"}
	case "timestamp with time zone", "date":
		return []string{"now()", "now() + interval '1 day'", "now() - interval '1 day'"}
	case "interval":
		return []string{"'1 s'"}
	}
	return []string{"'0'", "'1'", "'2'", fmt.Sprint("'", length, "'"), fmt.Sprint("'", random.IntN(1000), "'")}
}

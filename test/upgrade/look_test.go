package upgrade

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// state is what the previous version needs of a database.
type state struct {
	schemas map[string]*schema
}

// schema is one schema of a state. The keys are the names of tables, of tables with columns, and of constraints with their
// tables.
type schema struct {
	rows        map[string]int
	columns     map[string]column
	constraints map[string]constraint
	// statements are the results of each statement, by its index.
	statements map[int]result
}

type column struct {
	Table, Name, Type   string
	NotNull, HasDefault bool
}

type constraint struct {
	Table, Name, Kind, Definition string
	Columns                       []string
}

// result is what Postgres reports about a statement: its parameters and columns, or an error.
type result struct{ shape, err string }

// prepared returns the number of statements that are valid in the schema of one service at least.
func (s *state) prepared() int {
	valid := map[int]bool{}
	for _, one := range s.schemas {
		for i, r := range one.statements {
			if r.err == "" {
				valid[i] = true
			}
		}
	}
	return len(valid)
}

// look reads the state. It prepares each statement with the role of each service whose programs have it.
func (d *database) look(t *testing.T, all []statement) *state {
	t.Helper()
	s := &state{schemas: map[string]*schema{}}
	for _, name := range d.names {
		one := catalogue(t, open(t, d.AdminURL(), name), name)
		conn := open(t, d.URL(name), name)
		_, err := conn.Exec(t.Context(), `SET plan_cache_mode = force_generic_plan`)
		require.NoError(t, err)
		for i, st := range all {
			if st.usedBy(name) {
				one.statements[i] = prepare(t, conn, strings.Join(st.Pieces, ""), len(st.Pieces) == 1)
			}
		}
		s.schemas[name] = one
	}
	return s
}

// usedBy reports whether the programs of the service have the statement.
func (s statement) usedBy(service string) bool {
	owner, ok := strings.CutPrefix(s.Path, "services/")
	return !ok || strings.HasPrefix(owner, service+"/")
}

// prepare prepares a statement and, if it has a plan, plans it, which also checks the role's rights.
func prepare(t *testing.T, conn *pgx.Conn, sql string, whole bool) result {
	t.Helper()
	if !whole {
		return result{err: "a part of the statement is known only at run time"}
	}
	text, _, err := pgx.NamedArgs{}.RewriteQuery(t.Context(), conn, sql, nil)
	require.NoError(t, err)
	d, err := conn.PgConn().Prepare(t.Context(), "", text, nil)
	if err != nil {
		return result{err: err.Error()}
	}
	var shape strings.Builder
	fmt.Fprint(&shape, "parameters ", d.ParamOIDs, " columns")
	for _, f := range d.Fields {
		fmt.Fprint(&shape, " ", f.Name, " ", f.DataTypeOID)
	}
	verb, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch strings.ToUpper(strings.TrimSpace(verb)) {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH":
		arguments := strings.TrimSuffix(strings.Repeat("NULL, ", len(d.ParamOIDs)), ", ")
		if arguments != "" {
			arguments = "(" + arguments + ")"
		}
		plan := "PREPARE planned AS " + text + "; EXPLAIN EXECUTE planned" + arguments + "; DEALLOCATE planned"
		if _, err := conn.PgConn().Exec(t.Context(), plan).ReadAll(); err != nil {
			return result{err: err.Error()}
		}
	}
	return result{shape: shape.String()}
}

// catalogue reads the tables of a schema with an admin's connection.
func catalogue(t *testing.T, conn *pgx.Conn, name string) *schema {
	t.Helper()
	s := &schema{rows: map[string]int{}, columns: map[string]column{}, constraints: map[string]constraint{}, statements: map[int]result{}}
	for _, c := range rows[column](t, conn, `
		SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef OR a.attidentity <> ''
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped`, name) {
		s.columns[c.Table+"."+c.Name] = c
		s.rows[c.Table] = 0
	}
	for _, c := range rows[constraint](t, conn, `
		SELECT c.relname, o.conname, o.contype::text, regexp_replace(pg_get_constraintdef(o.oid), ' NOT VALID$', ''),
			ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum = ANY (o.conkey))
		FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
		WHERE c.relnamespace = $1::regnamespace AND NOT c.relispartition AND o.contype IN ('c', 'f', 'x')
		UNION ALL
		SELECT c.relname, i.relname, 'u', regexp_replace(pg_get_indexdef(i.oid), '^CREATE UNIQUE INDEX \S+ ', ''),
			ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum IN (
				SELECT refobjsubid FROM pg_depend WHERE objid = i.oid AND classid = 'pg_class'::regclass AND refobjid = c.oid
				UNION ALL SELECT unnest(x.indkey)))
		FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid
		WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND x.indisunique
		UNION ALL
		SELECT c.relname, t.tgname, 't', pg_get_triggerdef(t.oid), '{}'
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE c.relnamespace = $1::regnamespace AND NOT c.relispartition AND NOT t.tgisinternal`, name) {
		s.constraints[c.Table+"."+c.Name] = c
	}
	for table := range s.rows {
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM `+pgx.Identifier{table}.Sanitize()).Scan(&n))
		s.rows[table] = n
	}
	return s
}

package runsearch

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// maxCounted is the maximum number of runs that are grouped.
const maxCounted = 20_000

// grouping is what runs are grouped by, and the numbers that are summarized.
type grouping struct{ by, values []string }

// columns returns the columns of a member.
func (g *grouping) columns(s *db.Selection) (string, error) {
	out := []string{`id`, `(SELECT as_of FROM run_summary s WHERE s.run_id = run.id)`}
	var faults []fault.Field
	for i, name := range g.by {
		column := groupColumn(s, name)
		if column == "" {
			faults = append(faults, fault.At(fault.TypeValue, "Input should be project, owner, recipe, state, label.NAME or hparam.KEY", "group_by", i))
		}
		out = append(out, column)
	}
	for i, name := range g.values {
		t, ok := factOf(name)
		if !ok {
			faults = append(faults, fault.At(fault.TypeValue, "Input should be hparam.KEY, or metric.KEY.last, .min, .max or .best", "values", i))
			continue
		}
		out = append(out, `(SELECT f.`+t.number+` FROM `+t.table+` f WHERE f.run_id = run.id AND f.key = `+s.Arg(t.key)+`)`)
	}
	if len(faults) > 0 {
		return "", fault.InvalidFields(faults...)
	}
	return strings.Join(out, `, `), nil
}

// groupColumn returns the SQL expression, as JSON text, of what runs are grouped by, or nothing.
func groupColumn(s *db.Selection, name string) string {
	kind, rest, _ := strings.Cut(name, ".")
	if t, ok := factOf(name); ok && t.table == hparams {
		return `(SELECT f.value FROM run_hparam f WHERE f.run_id = run.id AND f.key = ` + s.Arg(t.key) + `)`
	}
	switch {
	case kind == "label" && rest != "" && len(rest) <= maxText && !strings.ContainsRune(rest, 0):
		return `to_json(labels ->> ` + s.Arg(rest) + `)::text`
	case name != "id" && name != "name" && textColumn(name) != "":
		return `to_json(` + textColumn(name) + `)::text`
	}
	return ""
}

// aggregate groups the newest runs that callers with this scope may see and that match the query. more reports whether
// there are older ones.
func (Store) aggregate(ctx context.Context, q pg.Querier, scope authn.Scope, from *query, by *grouping) (found groups, runs int32, more bool, err error) {
	chosen, err := from.selection(scope)
	if err != nil {
		return nil, 0, false, err
	}
	columns, err := by.columns(chosen)
	if err != nil {
		return nil, 0, false, err
	}
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM run WHERE `+chosen.Where+` ORDER BY created_at DESC, id DESC LIMIT `+chosen.Arg(maxCounted+1), chosen.Args...)
	if err != nil {
		return nil, 0, false, fmt.Errorf("group runs: %w", err)
	}
	found = groups{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		m := &member{keys: make([]*string, len(by.by)), values: make([]*float64, len(by.values))}
		into := []any{&m.id, &m.asOf}
		for i := range m.keys {
			into = append(into, &m.keys[i])
		}
		for i := range m.values {
			into = append(into, &m.values[i])
		}
		err := row.Scan(into...)
		if more = runs == maxCounted; err == nil && !more {
			runs++
			found.add(m)
		}
		return struct{}{}, err
	})
	if err != nil {
		return nil, 0, false, fmt.Errorf("group runs: %w", err)
	}
	return found, runs, more, nil
}

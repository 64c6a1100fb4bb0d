package runsearch

import (
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/timestamp"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// textColumn returns the column of a field that is a text, or nothing.
func textColumn(field string) string {
	switch field {
	case "id", "name", "project", "state":
		return field
	case "owner":
		return `owner_name`
	case "recipe":
		return `recipe_lock ->> 'name'`
	}
	return ""
}

// isTime reports whether a field is a time. Its column has the same name.
func isTime(field string) bool {
	return field == "created_at" || field == "started_at" || field == "ended_at"
}

// sign returns the SQL operator of an operator that compares numbers and times, or nothing.
func sign(op string) string {
	switch op {
	case "eq":
		return `=`
	case "lt":
		return `<`
	case "le":
		return `<=`
	case "gt":
		return `>`
	case "ge":
		return `>=`
	}
	return ""
}

// compare translates a comparison. The result is true or false, never NULL, so that it can be negated.
func (f *filter) compare(c comparison, loc []any) string {
	if c.op == "in" {
		return f.any(c, loc)
	}
	kind, rest, _ := strings.Cut(c.field, ".")
	fact, isFact := factOf(c.field)
	switch {
	case isFact:
		return f.fact(fact, c, loc)
	case kind == "label" && rest != "":
		return f.label(rest, c, loc)
	case isTime(c.field):
		return f.time(c, loc)
	case textColumn(c.field) != "":
		return f.text(c, loc)
	case c.field == "tag":
		if tag, ok := f.string(c, loc, "eq"); ok {
			return `tags @> ` + f.Arg([]string{strings.ToLower(tag)}) + `::text[]`
		}
		return no
	case c.field == "protected":
		if want, ok := c.value.(bool); ok && c.op == "eq" {
			return `protected = ` + f.Arg(want)
		}
		return f.fault(loc, fault.TypeValue, "protected can be compared by eq with true or false")
	}
	return f.fault(loc, fault.TypeValue, "There is no field %q", cut(c.field))
}

// any translates a comparison with several values.
func (f *filter) any(c comparison, loc []any) string {
	list, ok := c.value.([]any)
	if !ok || len(list) == 0 || len(list) > maxValues {
		return f.fault(loc, fault.TypeListType, "The value should be a list of 1 to %d values", maxValues)
	}
	parts := make([]string, 0, len(list))
	for _, v := range list {
		before := len(f.faults)
		parts = append(parts, f.compare(comparison{field: c.field, op: "eq", value: v}, loc))
		if len(f.faults) > before {
			return no
		}
	}
	return `(` + strings.Join(parts, ` OR `) + `)`
}

// string returns the value of a comparison that needs a text and one of the operators.
func (f *filter) string(c comparison, loc []any, ops ...string) (string, bool) {
	text, ok := c.value.(string)
	for _, op := range ops {
		if ok && op == c.op && len(text) <= maxText && !strings.ContainsRune(text, 0) {
			return text, true
		}
	}
	f.fault(loc, fault.TypeValue, "%s can be compared by %s with a text of at most %d bytes", cut(c.field), strings.Join(ops, ", "), maxText)
	return "", false
}

func (f *filter) text(c comparison, loc []any) string {
	ops := []string{"eq"}
	if c.field == "name" {
		ops = append(ops, "contains")
	}
	text, ok := f.string(c, loc, ops...)
	if !ok {
		return no
	}
	column := textColumn(c.field)
	switch {
	case c.op == "contains":
		return `lower(name) LIKE lower(` + f.Arg(db.Anywhere(text)) + `)`
	case c.field == "project" && strings.HasPrefix(text, string(id.Project)+"_"): // a key has no underscore
		column = `project_id`
	}
	return `(` + column + ` = ` + f.Arg(text) + ` AND ` + column + ` IS NOT NULL)`
}

func (f *filter) time(c comparison, loc []any) string {
	column := c.field
	if c.op == "exists" {
		return f.exists(column+` IS NOT NULL`, c, loc)
	}
	text, _ := c.value.(string)
	at, ok := timestamp.Parse(text)
	if !ok || sign(c.op) == "" || at.Year() < 1 || at.Year() > 9999 {
		return f.fault(loc, fault.TypeDatetime, "%s can be compared by eq, lt, le, gt, ge with an RFC 3339 time, and by exists", c.field)
	}
	return `(` + column + ` ` + sign(c.op) + ` ` + f.Arg(at) + ` AND ` + column + ` IS NOT NULL)`
}

// exists translates the operator exists, whose value is true, the default, or false.
func (f *filter) exists(condition string, c comparison, loc []any) string {
	want, ok := c.value.(bool)
	switch {
	case c.value == nil || ok && want:
		return condition
	case ok:
		return `NOT (` + condition + `)`
	}
	return f.fault(loc, fault.TypeBoolType, "exists takes true or false")
}

// label translates the comparison of a label. The labels of an old run that were not copied yet are those of its job.
func (f *filter) label(name string, c comparison, loc []any) string {
	wanted := name
	if c.op != "exists" {
		value, ok := f.string(c, loc, "eq")
		if !ok {
			return no
		}
		wanted += "=" + value
	}
	if len(name) > maxText || strings.ContainsAny(name, "=\x00") {
		return f.fault(loc, fault.TypeValue, "There is no label %q", cut(name))
	}
	match, err := f.Label(wanted)
	if err != nil {
		return f.fault(loc, fault.TypeValue, "The label cannot be compared")
	}
	match = `(labels IS NOT NULL AND ` + match + ` OR labels IS NULL AND EXISTS (SELECT FROM job j WHERE j.run_id = run.id AND j.` + match + `))`
	if c.op == "exists" {
		return f.exists(match, c, loc)
	}
	return match
}

// fact translates the comparison of a hyperparameter or a metric.
func (f *filter) fact(t fact, c comparison, loc []any) string {
	found := `EXISTS (SELECT FROM ` + t.table + ` f WHERE f.run_id = run.id AND f.key = ` + f.Arg(t.key)
	if c.op == "exists" {
		return f.exists(found+` AND f.`+t.shown+` IS NOT NULL)`, c, loc)
	}
	if number, ok := numberOf(c.value); ok && sign(c.op) != "" {
		return found + ` AND f.` + t.number + ` ` + sign(c.op) + ` ` + f.Arg(number) + ` AND f.` + t.number + ` < 'NaN')`
	}
	value, err := json.Marshal(c.value)
	if _, isNumber := c.value.(json.Number); c.op == "eq" && t.table == hparams && !isNumber && scalar(c.value) && err == nil && len(value) <= maxText {
		return found + ` AND f.value = ` + f.Arg(string(value)) + `)`
	}
	if t.table == hparams {
		return f.fault(loc, fault.TypeValue, "a hyperparameter can be compared by lt, le, gt, ge with a number, by eq also with a text of at most %d bytes, true, false or null, and by exists", maxText)
	}
	return f.fault(loc, fault.TypeValue, "a metric can be compared by eq, lt, le, gt, ge with a number, and by exists")
}

func numberOf(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	x, err := n.Float64()
	return x, err == nil && !math.IsInf(x, 0)
}

// scalar reports whether a value is a text, true, false or null.
func scalar(v any) bool {
	switch v.(type) {
	case string, bool, nil:
		return true
	}
	return false
}

// comparison is a field, an operator and a value. The value is a string, a json.Number, a bool, nil or a list.
type comparison struct {
	field, op string
	value     any
}

func (f *filter) comparison(members map[string]any, loc []any) string {
	f.comparisons++
	c := comparison{op: "eq", value: members["value"]}
	for name, v := range members {
		var ok bool
		switch name {
		case "field":
			c.field, ok = v.(string)
		case "op":
			c.op, ok = v.(string)
		case "value":
			ok = true
		default:
			return f.fault(append(loc, name), fault.TypeExtra, "Extra inputs are not permitted")
		}
		if !ok {
			return f.fault(append(loc, name), fault.TypeStringType, "Input should be a valid string")
		}
	}
	if c.op == "ne" {
		c.op = "eq"
		return `NOT (` + f.compare(c, loc) + `)`
	}
	return f.compare(c, loc)
}

// The tables of the copied reports.
const (
	hparams = `run_hparam`
	metrics = `run_metric`
)

// maxKey is the maximum size of the key of a hyperparameter or metric, in bytes.
const maxKey = 256

// fact is a hyperparameter or a value of a metric: a table, its column for comparisons and orders, and the column that
// is shown.
type fact struct{ table, key, number, shown string }

// factOf parses hparam.KEY, or metric.KEY.last, .min, .max or .best. A key may contain dots.
func factOf(name string) (fact, bool) {
	kind, key, _ := strings.Cut(name, ".")
	switch kind {
	case "hparam":
		return fact{table: hparams, key: key, number: `number`, shown: `value`}, storableKey(key)
	case "metric":
		dot := strings.LastIndexByte(key, '.')
		if dot < 0 {
			return fact{}, false
		}
		column := key[dot+1:]
		known := column == "last" || column == "min" || column == "max" || column == "best"
		return fact{table: metrics, key: key[:dot], number: column, shown: column}, known && storableKey(key[:dot])
	}
	return fact{}, false
}

func storableKey(key string) bool {
	return key != "" && len(key) <= maxKey && utf8.ValidString(key) && !strings.ContainsRune(key, 0)
}

// cut shortens a name for a message.
func cut(name string) string {
	const most = 80
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

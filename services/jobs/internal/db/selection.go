package db

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

// Selection is the WHERE condition of a list with its arguments. It contains only the filters that are given: Postgres
// cannot use an index for a condition that an argument may switch off.
type Selection struct {
	Where string
	Args  []any
}

// Select returns the condition for everything that callers with the scope may see.
func Select(scope authn.Scope) *Selection {
	return &Selection{Where: access.Visible, Args: access.Args(scope)}
}

// Arg adds an argument and returns its placeholder, such as $5.
func (s *Selection) Arg(value any) string {
	s.Args = append(s.Args, value)
	return "$" + strconv.Itoa(len(s.Args))
}

// And adds a condition, whose parts are joined.
func (s *Selection) And(condition ...string) {
	s.Where += " AND " + strings.Join(condition, "")
}

// Equal adds the comparison of a column with a value, unless the value is empty.
func (s *Selection) Equal(column, value string) {
	if value != "" {
		s.And(column, ` = `, s.Arg(value))
	}
}

// Label returns the condition for one label: name=value, or a name that matches any value.
func (s *Selection) Label(l string) (string, error) {
	name, value, paired := strings.Cut(l, "=")
	if !paired {
		return `labels ? ` + s.Arg(name), nil
	}
	pair, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		return "", fmt.Errorf("encode a label: %w", err)
	}
	return `labels @> ` + s.Arg(string(pair)) + `::text::jsonb`, nil
}

// Anywhere returns the LIKE pattern of all texts that contain the given text.
func Anywhere(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

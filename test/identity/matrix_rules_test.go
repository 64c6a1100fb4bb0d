package identity

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
)

// authorization is the hand-written table of permissions.
//
//go:embed testdata/authorization.txt
var authorization string

// relations returns the columns of the table in order.
func relations() []string {
	return []string{"nobody", "newcomer", "admin", "owner", "viewer", "editor", "manager", "member", "lead", "seen", "hidden", "absent", "gone"}
}

// rule maps each relation to its expected result.
type rule map[string]string

// row is a line of the table. It describes a route.
type row struct {
	method, path string
	variant      string // distinguishes the rows of one route
	rule         string
	success      []int
	body         string
}

func (r row) name() string {
	if r.variant != "" {
		return r.method + " " + r.path + "#" + r.variant
	}
	return r.method + " " + r.path
}

// routes returns the route of the row, for draw.Routes.
func (r row) routes() []string { return []string{r.method + " " + r.path} }

// table is the authorization table, parsed.
type table struct {
	rules map[string]rule
	rows  []row
}

// rules parses the authorization table.
func rules(t *testing.T) table {
	t.Helper()
	out := table{rules: map[string]rule{}}
	bodies := map[string]string{}
	section := ""
	for line := range strings.Lines(authorization) {
		line = strings.TrimSpace(line)
		fields := strings.Fields(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = line
		case section == "[rules]":
			require.Len(t, fields, len(relations())+1, line)
			r := rule{}
			for i, relation := range relations() {
				r[relation] = fields[i+1]
			}
			out.rules[fields[0]] = r
		case section == "[routes]":
			require.Len(t, fields, 4, line)
			path, variant, _ := strings.Cut(fields[1], "#")
			out.rows = append(out.rows, row{method: fields[0], path: path, variant: variant, rule: fields[2], success: statuses(t, fields[3])})
		default:
			require.Equal(t, "[bodies]", section, line)
			_, body, _ := strings.Cut(line, fields[1])
			bodies[fields[0]+" "+fields[1]] = strings.TrimSpace(body)
		}
	}
	for i := range out.rows {
		r := &out.rows[i]
		require.Contains(t, out.rules, r.rule, r.name())
		r.body = bodies[r.name()]
		delete(bodies, r.name())
	}
	require.Empty(t, bodies, "each body in the table must belong to a route")
	return out
}

func statuses(t *testing.T, text string) []int {
	t.Helper()
	if text == "-" {
		return nil
	}
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		require.NoError(t, err)
		out = append(out, n)
	}
	return out
}

// generatedRoute returns the entry of the generated route table for a row.
func generatedRoute(t *testing.T, r row) route.Route {
	t.Helper()
	for _, rt := range route.Table() {
		if rt.Method == r.method && rt.Pattern == r.path {
			return rt
		}
	}
	require.FailNow(t, "the generated table has no route "+r.name())
	return route.Route{}
}

// TestAuthorizationTable_coversEveryRoute checks that the hand-written table contains exactly the routes of
// the generated table, which are the routes that the gateway serves.
func TestAuthorizationTable_coversEveryRoute(t *testing.T) {
	t.Parallel()
	var written, found []string
	for _, r := range rules(t).rows {
		if r.variant == "" {
			written = append(written, r.name())
		}
	}
	for _, rt := range route.Table() {
		found = append(found, rt.Method+" "+rt.Pattern)
	}
	slices.Sort(written)
	slices.Sort(found)
	require.Equal(t, found, written)
}

// TestAuthorizationTable_rules checks that the table contains only known results and uses every rule.
func TestAuthorizationTable_rules(t *testing.T) {
	t.Parallel()
	words := []string{"ok", "both", "open", "none", "refused", "-", "400", "401", "403", "404"}
	used := map[string]bool{}
	table := rules(t)
	for name, r := range table.rules {
		for relation, want := range r {
			require.Contains(t, words, want, "relation %s of rule %s: unknown result", relation, name)
		}
		require.True(t, r["nobody"] == "401" || r["nobody"] == "refused" || name == "public", name)
	}
	for _, r := range table.rows {
		used[r.rule] = true
		opens := slices.Contains([]string{"ok", "both"}, table.rules[r.rule]["admin"]) || table.rules[r.rule]["owner"] == "ok"
		require.Equal(t, opens, len(r.success) > 0, "%s must have a success status if and only if anyone may call it", r.name())
	}
	require.Len(t, used, len(table.rules), "every rule must be used by a route")
}

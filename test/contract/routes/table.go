// Package routes is the table of what the tests need to know of every route: who may call it, which objects it shows,
// values for the variables of its path, and a valid body. A route without a complete row makes TestRoutes_complete fail
// with a sentence that states what to add. All other tests leave such a route out, so that it fails once.
package routes

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// path is the path of the table in the checkout.
const path = "test/contract/routes/routes.txt"

//go:embed routes.txt
var text string

// Table is the table of routes. Callers must not change it.
type Table struct {
	// Rules maps the name of each rule to the expected result for each relation.
	Rules map[string]Rule
	// Rows lists the complete rows in the order of the file.
	Rows []Row
	// Missing states what to add to the file and what to remove from it. It is empty if all rows are complete.
	Missing []string

	variables map[string]Variable
	// meanings maps the name of a variable that means different things to its meaning below each path.
	meanings map[string]map[string]string
}

// Rule maps each relation to its expected result.
type Rule map[string]string

// Relations returns the relations between a caller and an object, in the order of the columns of the rules.
func Relations() []string {
	return []string{"nobody", "newcomer", "admin", "owner", "viewer", "editor", "manager", "member", "lead", "seen", "hidden", "absent", "gone"}
}

// Row is a line of the table: a route, and what the tests need to know of it.
type Row struct {
	route.Route

	// Variant distinguishes the rows of one route; empty if it has one row.
	Variant string
	// Rule is the name of the rule that states who may call the route.
	Rule string
	// Success lists the statuses of the responses to those who may call the route.
	Success []int
	// Request is the body of a valid request, with placeholders in angle brackets; empty if the route takes no body.
	Request string
	// Of is the variable whose objects the list shows; empty if the rule does not distinguish them.
	Of string
	// Query is the query with which the list shows all of them; empty if it needs none.
	Query string
	// Required states that the route refuses an empty query.
	Required bool
	// Fixed is the reason why the list cannot grow; empty for all other routes.
	Fixed string
	// Empty is the reason why test/e2e has no data here; empty if it has some.
	Empty string
	// Sometimes is the reason why test/e2e has data here only sometimes, so that no test can tell whether it has some.
	Sometimes string
	// Unaudited is the reason why the route leaves no audit row although its method is not GET or HEAD.
	Unaudited string
}

// Served returns the method and the pattern of the route, as in POST /api/jobs.
func (r Row) Served() string { return r.Method + " " + r.Pattern }

// Name returns the method and the pattern of the route and the variant of the row, as in POST /api/projects#team.
func (r Row) Name() string {
	if r.Variant != "" {
		return r.Served() + "#" + r.Variant
	}
	return r.Served()
}

// Object returns the name of the path variable of the object to which the rule applies, or "" if the path has no such variable.
func (r Row) Object() string {
	for _, name := range Names(r.Pattern) {
		if name != "subject_kind" && !strings.Contains(r.Pattern, "{"+name+"...}") {
			return name
		}
	}
	return ""
}

// Variable is a variable of paths.
type Variable struct {
	// Name is what the variable means. It differs from the name in the pattern if that means different things.
	Name string
	// Prefix is the prefix of the id; empty if the variable is a name or a number.
	Prefix id.Prefix
	// Absent is a well-formed value that identifies nothing.
	Absent string
	// Present is a value that exists in every installation of the tests; empty if each test has its own.
	Present string
	// Shared is the variable of the shared installation of test/contract that has a value; empty if the installation has no such object.
	Shared string
	// OfRun states that a run has made the object or is shown by it.
	OfRun bool
}

// Load returns the table.
func Load() *Table { return load() }

var load = sync.OnceValue(func() *Table { return parse(text, route.Table()) })

// Routes returns the routes of all complete rows, each once, in the order of the generated table.
func (t *Table) Routes() []Row {
	rows := map[string]Row{}
	for _, r := range t.Rows {
		if _, known := rows[r.Served()]; !known {
			rows[r.Served()] = r
		}
	}
	var out []Row
	for _, rt := range route.Table() {
		if r, known := rows[rt.Method+" "+rt.Pattern]; known {
			out = append(out, r)
		}
	}
	return out
}

// Endless returns the patterns of the streams that do not end by themselves.
func (t *Table) Endless() []string {
	patterns := []string{}
	for _, r := range t.Routes() {
		if Endless(r.Route) {
			patterns = append(patterns, r.Pattern)
		}
	}
	return patterns
}

// Generated returns the entries of the generated table for Routes.
func (t *Table) Generated() []route.Route {
	var out []route.Route
	for _, r := range t.Routes() {
		out = append(out, r.Route)
	}
	return out
}

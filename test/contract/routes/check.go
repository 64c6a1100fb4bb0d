package routes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/gen/route"
)

// check keeps the complete rows and states what is missing.
func (p *parser) check(served []route.Route) {
	p.checkVariables(served)
	used := map[string]bool{}
	for _, r := range p.rows {
		r.Request = p.bodies[r.Name()]
		used[r.Rule] = true
		before := len(p.Missing)
		p.checkRow(r)
		p.seen[r.Name()] = true
		if len(p.Missing) == before && !p.broken[r.Name()] && p.fillable(r.Pattern) {
			p.Rows = append(p.Rows, r)
		}
	}
	for _, rt := range served {
		name := rt.Method + " " + rt.Pattern
		if !p.seen[name] {
			p.miss("%s", newRow(rt))
		}
		if Unpaged(rt) {
			p.miss("%s returns an array without pages, so no test sees that it is a list: add limit and offset to %s", name, rpc(rt).Input().FullName())
		}
	}
	if len(p.Missing) == 0 { // otherwise lines of an incomplete row would look superfluous
		p.checkSuperfluous(served, used)
	}
}

// checkSuperfluous states which lines no row and no route needs. The parameter usedRules holds the rules of all rows.
func (p *parser) checkSuperfluous(served []route.Route, usedRules map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(p.bodies)) {
		if !p.seen[name] {
			p.miss("[bodies] has a line of %s, which has no row: remove the line", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Rules)) {
		if !usedRules[name] {
			p.miss("no route has the rule %s: remove the rule", name)
		}
	}
	used := map[string]bool{}
	for _, rt := range served {
		for _, name := range Names(rt.Pattern) {
			v, _ := p.Variable(rt.Pattern, name)
			used[v.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.variables)) {
		if !used[name] {
			p.miss("no route has the variable %s: remove its line from [variables]", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.meanings)) {
		for _, below := range slices.Sorted(maps.Keys(p.meanings[name])) {
			if !slices.ContainsFunc(served, func(rt route.Route) bool {
				return strings.HasPrefix(rt.Pattern, below) && slices.Contains(Names(rt.Pattern), name)
			}) {
				p.miss("no route below %s has the variable %s: remove it from the line of %[2]s in [variables]", below, name)
			}
		}
	}
}

// newRow states what to add for a route without a row.
func newRow(rt route.Route) string {
	name := rt.Method + " " + rt.Pattern
	out := fmt.Sprintf(`%s has no row: add "%s RULE STATUS" to [routes], with a rule of [rules], the status of a success and, if the rule has the result both, of=VARIABLE`, name, name)
	if List(rt) {
		out += `; it is a list, so add a function to test/contract/list_*.go, or the word fixed="WHY" if no row can be added to the list`
	}
	if reads(rt) && rt.Credential == "user" {
		out += `; it reads, so give test/e2e/resource_test.go data to compare, or add the word empty="WHY"`
	}
	if Changing(rt) {
		out += `; it changes something, so call it in test/identity/leak, or add the word unaudited="WHY" if it only reads`
	}
	if rt.Kind == route.RPC && rt.Body != "" {
		out += fmt.Sprintf(`; it takes a body, so add "%s BODY" to [bodies]`, name)
	}
	return out
}

// checkRow states what is missing in a row.
func (p *parser) checkRow(r Row) {
	name := r.Name()
	_, isServed := p.served[r.Served()]
	rule, isRule := p.Rules[r.Rule]
	switch {
	case p.seen[name]:
		p.miss("%s has two rows: remove one, or distinguish them by a suffix with #", name)
		return
	case !isServed:
		p.miss("%s is not served: remove its row", name)
		return
	case !isRule:
		p.miss("%s: rule %s is not in [rules]: use one of them or add it there", name, r.Rule)
		return
	}
	opens := rule["admin"] == "ok" || rule["admin"] == "both" || rule["owner"] == "ok"
	if opens != (len(r.Success) > 0) {
		p.miss("%s must have the status of a success if and only if rule %s lets anyone in; otherwise write -", name, r.Rule)
	}
	if (r.Of != "") != (rule["admin"] == "both") {
		p.miss("%s must have the word of=VARIABLE, for the objects that it lists, if and only if its rule has the result both", name)
	} else if v := p.variables[r.Of]; r.Of != "" && v.Prefix == "" && r.Of != "namespace" {
		p.miss("%s: of=%s must name a variable of an id, or namespace", name, r.Of)
	}
	if r.Kind == route.RPC && (r.Body != "") != (r.Request != "") {
		p.miss("%s must have a line in [bodies] if and only if the route takes a body", name)
	}
	for word, is := range map[string]bool{
		`fixed="WHY", which only lists may have`:                                  r.Fixed != "" && !List(r.Route),
		`empty="WHY", which only calls with GET may have`:                         r.Empty != "" && !reads(r.Route),
		`sometimes="WHY", which only calls with GET and without empty may have`:   r.Sometimes != "" && (!reads(r.Route) || r.Empty != ""),
		`unaudited="WHY", which only calls with another method than GET may have`: r.Unaudited != "" && !Changing(r.Route),
		`required, which only routes with query= may have`:                        r.Required && r.Query == "",
	} {
		if is {
			p.miss("%s has the word %s: remove it", name, word)
		}
	}
}

// fillable reports whether each variable of a pattern has a value.
func (t *Table) fillable(pattern string) bool {
	return !slices.ContainsFunc(Names(pattern), func(name string) bool {
		_, known := t.Variable(pattern, name)
		return !known
	})
}

// checkVariables states which variables have no value.
func (p *parser) checkVariables(served []route.Route) {
	for _, rt := range served {
		for _, name := range Names(rt.Pattern) {
			switch _, known := p.Variable(rt.Pattern, name); {
			case known || p.broken["{"+name+"}"]:
			case p.meanings[name] != nil:
				p.missOnce(`{%s} of %s has no meaning: add "/PATH/=VARIABLE" to its line in [variables], and a line of that variable unless it has one`, name, rt.Pattern)
			default:
				p.missOnce(`{%s} has no value: add "%[1]s id:PREFIX -" to [variables] if it is an id, otherwise "%[1]s ABSENT EXISTS"; add the word run if a run makes the object`, name)
			}
		}
	}
}

// missOnce is like miss, but adds no sentence twice.
func (p *parser) missOnce(format string, args ...any) {
	before := p.Missing
	p.miss(format, args...)
	if last := p.Missing[len(before)]; slices.Contains(before, last) {
		p.Missing = before
	}
}

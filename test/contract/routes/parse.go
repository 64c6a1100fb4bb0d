package routes

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// parser reads the table and collects what is missing.
type parser struct {
	*Table

	served map[string]route.Route // by method and pattern
	bodies map[string]string      // by name of the row
	seen   map[string]bool        // the names of rows
	broken map[string]bool        // the names of rows and, in braces, of variables whose lines cannot be read
	rows   []Row
}

// parse reads a table for the routes that the gateway serves.
func parse(text string, served []route.Route) *Table {
	p := &parser{
		Table:  &Table{Rules: map[string]Rule{}, variables: map[string]Variable{}, meanings: map[string]map[string]string{}},
		served: map[string]route.Route{}, bodies: map[string]string{}, seen: map[string]bool{}, broken: map[string]bool{},
	}
	for _, rt := range served {
		p.served[rt.Method+" "+rt.Pattern] = rt
	}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = line
		case section == "[rules]":
			p.rule(strings.Fields(line))
		case section == "[variables]":
			p.variable(strings.Fields(line))
		case section == "[routes]":
			p.row(line)
		default:
			p.body(line)
		}
	}
	p.check(served)
	return p.Table
}

// miss adds a sentence to Missing.
func (p *parser) miss(format string, args ...any) {
	p.Missing = append(p.Missing, fmt.Sprintf(format, args...)+" ("+path+")")
}

func (p *parser) rule(fields []string) {
	if len(fields) != len(Relations())+1 {
		p.miss("rule %s has %d results, and there are %d relations: state one for each", fields[0], len(fields)-1, len(Relations()))
		return
	}
	r := Rule{}
	for i, relation := range Relations() {
		r[relation] = fields[i+1]
		if words := []string{"ok", "both", "open", "none", "refused", "-", "400", "401", "403", "404"}; !slices.Contains(words, fields[i+1]) {
			p.miss("rule %s: relation %s has the unknown result %s: use one of %s", fields[0], relation, fields[i+1], strings.Join(words, ", "))
		}
	}
	if r["nobody"] != "401" && r["nobody"] != "refused" && fields[0] != "public" {
		p.miss("rule %s: callers without a credential may use only public routes: write 401 or refused", fields[0])
	}
	p.Rules[fields[0]] = r
}

func (p *parser) variable(fields []string) {
	name := fields[0]
	if strings.Contains(strings.Join(fields[1:], " "), "=") {
		p.meanings[name] = map[string]string{}
		for _, field := range fields[1:] {
			below, meaning, _ := strings.Cut(field, "=")
			p.meanings[name][below] = meaning
		}
		return
	}
	if len(fields) < 3 || len(fields) > 4 || len(fields) == 4 && fields[3] != "run" {
		p.miss(`variable %s: write "%[1]s id:PREFIX -", "%[1]s ABSENT EXISTS" or the same with the word run at the end`, name)
		p.broken["{"+name+"}"] = true
		return
	}
	v := Variable{Name: name, Absent: fields[1], OfRun: len(fields) == 4}
	if prefix, is := strings.CutPrefix(fields[1], "id:"); is {
		v.Prefix = id.Prefix(prefix)
		v.Absent = prefix + "_" + strings.Repeat("0", 26)
		if !slices.Contains(id.Prefixes(), v.Prefix) {
			p.miss("variable %s: platform/id has no prefix %s: add the prefix there or correct it here", name, prefix)
		}
	}
	if shared, is := strings.CutPrefix(fields[2], "@"); is {
		v.Shared = shared
	} else if fields[2] != "-" {
		v.Present = fields[2]
	}
	p.variables[name] = v
}

// rowWord matches a word of a row: a flag, or a name and a value.
var rowWord = regexp.MustCompile(`([a-z]+)(?:=("[^"]*"|\S+))?(?:\s+|$)`)

// row reads a row. Only check decides whether it is complete.
func (p *parser) row(line string) {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		p.miss("%q cannot be read: write METHOD PATTERN RULE STATUS and, if there are any, words", line)
		return
	}
	r := Row{Rule: fields[2]}
	pattern, variant, _ := strings.Cut(fields[1], "#")
	r.Method, r.Pattern, r.Variant = fields[0], pattern, variant
	before := len(p.Missing)
	if rt, found := p.served[r.Served()]; found {
		r.Route = rt
	}
	if fields[3] != "-" {
		for part := range strings.SplitSeq(fields[3], ",") {
			status, err := strconv.Atoi(part)
			if err != nil {
				p.miss("%s: %q is not a status: write numbers with commas between them, or -", r.Name(), part)
			}
			r.Success = append(r.Success, status)
		}
	}
	rest := line
	for _, field := range fields[:4] {
		_, rest, _ = strings.Cut(rest, field)
	}
	rest = strings.TrimSpace(rest)
	for _, m := range rowWord.FindAllStringSubmatch(rest, -1) {
		p.word(&r, m[1], strings.Trim(m[2], `"`))
	}
	if left := strings.TrimSpace(rowWord.ReplaceAllString(rest, "")); left != "" {
		p.miss("%s: %q cannot be read: write NAME=VALUE, with quotes around a text", r.Name(), left)
	}
	p.rows = append(p.rows, r)
	p.broken[r.Name()] = p.broken[r.Name()] || len(p.Missing) > before
}

// word sets what a word of a row states.
func (p *parser) word(r *Row, name, value string) {
	texts := map[string]*string{"of": &r.Of, "query": &r.Query, "fixed": &r.Fixed, "empty": &r.Empty, "sometimes": &r.Sometimes, "unaudited": &r.Unaudited}
	switch into := texts[name]; {
	case into != nil && value != "":
		*into = value
	case name == "required" && value == "":
		r.Required = true
	default:
		p.miss(`%s: the word %s=%q is unknown: use of=, query=, required, fixed="WHY", empty="WHY", sometimes="WHY" or unaudited="WHY"`, r.Name(), name, value)
	}
}

func (p *parser) body(line string) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		p.miss("%q cannot be read: write METHOD PATTERN BODY", line)
		return
	}
	_, body, _ := strings.Cut(line, fields[1])
	p.bodies[fields[0]+" "+fields[1]] = strings.TrimSpace(body)
}

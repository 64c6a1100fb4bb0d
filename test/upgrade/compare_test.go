package upgrade

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// compare returns what the previous version cannot do any more, sorted. A finding begins with the name of what has
// changed, or with the place of the statement.
func compare(before, after *state, all []statement) []string {
	var findings []string
	for _, name := range slices.Sorted(maps.Keys(before.schemas)) {
		old, now := before.schemas[name], after.schemas[name]
		var here []string
		here = append(here, old.compareColumns(now)...)
		here = append(here, old.compareConstraints(now)...)
		here = append(here, old.compareRows(now)...)
		for i, f := range here {
			here[i] = name + "." + f
		}
		findings = append(findings, here...)
		findings = append(findings, old.compareStatements(now, all)...)
	}
	slices.Sort(findings)
	return slices.Compact(findings)
}

// compareColumns finds the columns that refuse or change what the previous version writes. Columns that are gone matter
// only to statements.
func (s *schema) compareColumns(now *schema) []string {
	var findings []string
	for key, c := range now.columns {
		old, there := s.columns[key]
		_, table := s.rows[c.Table]
		switch {
		case !there && table && c.NotNull && !c.HasDefault:
			findings = append(findings, key+": the new column is NOT NULL without a default")
		case !there:
		case old.Type != c.Type:
			findings = append(findings, fmt.Sprintf("%s: the type was %s and is %s", key, old.Type, c.Type))
		case c.NotNull && !old.NotNull && !s.checksNotNull(c):
			findings = append(findings, key+": the column is NOT NULL now")
		case old.NotNull && !c.NotNull:
			findings = append(findings, key+": the column may be NULL now, which the previous version cannot read")
		case c.NotNull && old.HasDefault && !c.HasDefault:
			findings = append(findings, key+": the column has no default any more")
		}
	}
	return findings
}

// checksNotNull reports whether a constraint refuses NULL in the column.
func (s *schema) checksNotNull(c column) bool {
	for _, o := range s.constraints {
		if o.Table == c.Table && o.Definition == "CHECK (("+c.Name+" IS NOT NULL))" {
			return true
		}
	}
	return false
}

// compareConstraints finds the constraints that are new or changed and have a column that the previous version writes.
func (s *schema) compareConstraints(now *schema) []string {
	var findings []string
	for key, c := range now.constraints {
		old, there := s.constraints[key]
		written := c.Kind == "t" && s.hasTable(c.Table) || slices.ContainsFunc(c.Columns, func(name string) bool { _, ok := s.columns[c.Table+"."+name]; return ok })
		switch {
		case !written || (there && old.Definition == c.Definition):
		case there && c.Kind == "c" && widened(old.Definition, c.Definition):
		case there:
			findings = append(findings, fmt.Sprintf("%s: the constraint was %s and is %s", key, old.Definition, c.Definition))
		default:
			findings = append(findings, fmt.Sprintf("%s: the constraint is new: %s", key, c.Definition))
		}
	}
	return findings
}

// hasTable reports whether the table is in the schema.
func (s *schema) hasTable(name string) bool {
	_, there := s.rows[name]
	return there
}

// literal matches a string in the definition of a constraint.
var literal = regexp.MustCompile(`'(?:[^']|'')*'::text(?:, )?`)

// widened reports whether the definitions differ only in that the second one accepts more strings.
func widened(old, now string) bool {
	if !strings.Contains(old, "= ANY (ARRAY[") || literal.ReplaceAllString(old, "") != literal.ReplaceAllString(now, "") {
		return false
	}
	accepted := literal.FindAllString(now, -1)
	for _, text := range literal.FindAllString(old, -1) {
		if !slices.ContainsFunc(accepted, func(a string) bool { return strings.TrimSuffix(a, ", ") == strings.TrimSuffix(text, ", ") }) {
			return false
		}
	}
	return true
}

// compareRows finds the tables whose rows the migrations have deleted.
func (s *schema) compareRows(now *schema) []string {
	var findings []string
	for table, n := range s.rows {
		if left, there := now.rows[table]; there && left < n {
			findings = append(findings, fmt.Sprintf("%s: %d of %d rows are left", table, left, n))
		}
	}
	return findings
}

// compareStatements finds the statements that were valid and are not valid any more, or have other columns. A statement
// that is known only in part must not have the name of a table or a column that is gone.
func (s *schema) compareStatements(now *schema, all []statement) []string {
	var findings []string
	for i, old := range s.statements {
		at, text := fmt.Sprintf("%s:%d", all[i].Path, all[i].Line), strings.Join(strings.Fields(strings.Join(all[i].Pieces, "...")), " ")
		if len(text) > 200 {
			text = text[:200] + "..."
		}
		switch new := now.statements[i]; {
		case old.err == "" && new.err != "":
			findings = append(findings, fmt.Sprintf("%s: %s: %s", at, new.err, text))
		case old.shape != new.shape:
			findings = append(findings, fmt.Sprintf("%s: the types were %s and are %s: %s", at, old.shape, new.shape, text))
		case old.err != "":
			if name := s.gone(now, strings.Join(all[i].Pieces, " ")); name != "" {
				findings = append(findings, fmt.Sprintf("%s: %s is gone, and the statement may use it: %s", at, name, text))
			}
		}
	}
	return findings
}

// gone returns the name of a table that no table or column has any more, or of a column that its table lacks, if the
// statement may use it. If another column still has the name, the statement must have the name of the table, too.
func (s *schema) gone(now *schema, text string) string {
	left := map[string]bool{}
	for _, c := range now.columns {
		left[c.Table], left[c.Name] = true, true
	}
	words := map[string]bool{}
	for _, word := range word.FindAllString(text, -1) {
		words[word] = true
	}
	for _, key := range slices.Sorted(maps.Keys(s.columns)) {
		c := s.columns[key]
		_, kept := now.columns[key]
		switch {
		case words[c.Table] && !left[c.Table]:
			return c.Table
		case !kept && words[c.Name] && (words[c.Table] || !left[c.Name]):
			return c.Name
		}
	}
	return ""
}

// word matches a name in a statement.
var word = regexp.MustCompile(`\w+`)

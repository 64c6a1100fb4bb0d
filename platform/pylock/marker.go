package pylock

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Environment has the values of the variables in markers for one interpreter, such as `sys_platform`: see Variables.
type Environment map[string]string

// Variables returns the names of the variables that an Environment has.
func Variables() []string {
	return []string{
		"implementation_name", "implementation_version", "os_name", "platform_machine", "platform_python_implementation", "platform_release",
		"platform_system", "platform_version", "python_full_version", "python_version", "sys_platform",
	}
}

// versionVariables are compared as versions, all other variables as text.
func versionVariables() []string {
	return []string{"implementation_version", "python_full_version", "python_version"}
}

// extra is the variable that is equal to no text, because no extra of the project is installed.
const extra = "extra"

// marker is a parsed condition on an Environment: either a comparison, or a list of markers. All markers of the list must
// hold or, if any is true, at least one. A nil marker always holds.
type marker struct {
	any  bool
	list []*marker

	variable, op, text string
	// reversed means that the text is the left operand of `in` and `not in`.
	reversed bool
	// with is the text as a version, if the variable is compared as one, and wild whether the text ends with `.*`.
	with version
	wild bool
	form *regexp.Regexp
}

// holds reports whether the marker is true.
func (m *marker) holds(env Environment) bool {
	if m == nil {
		return true
	}
	if m.variable == "" {
		for _, part := range m.list {
			if part.holds(env) == m.any {
				return m.any
			}
		}
		return !m.any
	}
	if m.variable == extra {
		return m.op == "!=" || m.op == "not in"
	}
	value := env[m.variable]
	if m.op == "in" || m.op == "not in" {
		return m.within(value) == (m.op == "in")
	}
	if slices.Contains(versionVariables(), m.variable) {
		v, ok := parseVersion(m.form, value)
		return ok && v.matches(m.op, m.with, m.wild)
	}
	switch m.op {
	case "==", "===":
		return value == m.text
	case "!=":
		return value != m.text
	case "<":
		return value < m.text
	case "<=":
		return value <= m.text
	case ">":
		return value > m.text
	default:
		return value >= m.text
	}
}

func (m *marker) within(value string) bool {
	switch {
	case m.reversed:
		return strings.Contains(value, m.text)
	case slices.Contains(versionVariables(), m.variable):
		return slices.Contains(strings.FieldsFunc(m.text, func(r rune) bool { return strings.ContainsRune(" ,|", r) }), value)
	}
	return strings.Contains(m.text, value)
}

// maxDepth limits the parentheses of a marker.
const maxDepth = 32

// markerParser parses one marker.
type markerParser struct {
	rest   string
	depth  int
	extras bool
	form   *regexp.Regexp
}

// parseMarker parses a marker. Only if extras is true, it may use the variable `extra`. The pattern is that of versions.
func parseMarker(form *regexp.Regexp, text string, extras bool) (*marker, error) {
	p := &markerParser{rest: text, extras: extras, form: form}
	m, err := p.or()
	if err == nil && p.space() != "" {
		err = fmt.Errorf("the marker has unexpected text at %s", quote(p.rest))
	}
	return m, err
}

func (p *markerParser) space() string {
	p.rest = strings.TrimLeft(p.rest, " \t")
	return p.rest
}

// word removes a keyword from the beginning of the rest, if it is there.
func (p *markerParser) word(word string) bool {
	after, ok := strings.CutPrefix(p.space(), word)
	if !ok || (after != "" && nameByte(after[0])) {
		return false
	}
	p.rest = after
	return true
}

func nameByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func (p *markerParser) or() (*marker, error)  { return p.joined("or", p.and) }
func (p *markerParser) and() (*marker, error) { return p.joined("and", p.one) }

// joined parses one or more parts that are separated by the keyword.
func (p *markerParser) joined(keyword string, part func() (*marker, error)) (*marker, error) {
	all := &marker{any: keyword == "or"}
	for {
		m, err := part()
		if err != nil {
			return nil, err
		}
		all.list = append(all.list, m)
		if !p.word(keyword) {
			return all, nil
		}
	}
}

func (p *markerParser) one() (*marker, error) {
	if after, ok := strings.CutPrefix(p.space(), "("); ok {
		if p.depth++; p.depth > maxDepth {
			return nil, fmt.Errorf("the marker has more than %d parentheses inside each other", maxDepth)
		}
		p.rest = after
		m, err := p.or()
		if err != nil {
			return nil, err
		}
		if after, ok = strings.CutPrefix(p.space(), ")"); !ok {
			return nil, fmt.Errorf("the marker lacks a closing parenthesis at %s", quote(p.rest))
		}
		p.rest = after
		p.depth--
		return m, nil
	}
	return p.comparison()
}

func (p *markerParser) comparison() (*marker, error) {
	left, leftText, err := p.operand()
	if err != nil {
		return nil, err
	}
	op, err := p.operator()
	if err != nil {
		return nil, err
	}
	right, rightText, err := p.operand()
	if err != nil {
		return nil, err
	}
	if leftText == rightText {
		return nil, fmt.Errorf("the marker must compare a variable with a text, it compares %s with %s", quote(left), quote(right))
	}
	m := &marker{variable: left, op: op, text: right, form: p.form}
	if leftText {
		m.variable, m.text, m.reversed = right, left, true
		flipped := map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<="}
		if turned, ok := flipped[op]; ok {
			m.op = turned
		}
	}
	return m, p.check(m)
}

// check returns an error if the comparison is not possible.
func (p *markerParser) check(m *marker) error {
	switch {
	case m.variable == extra && !p.extras:
		return fmt.Errorf("the marker uses the variable %s, which has no value here", extra)
	case m.variable == extra && strings.HasPrefix(m.text, "group-"):
		return fmt.Errorf("the marker depends on a dependency group that conflicts with others (%s)", quote(m.text))
	case m.variable == extra && m.op != "==" && m.op != "!=":
		return fmt.Errorf("the marker compares the variable %s by %s", extra, m.op)
	case m.op == "in" || m.op == "not in":
		return nil
	case slices.Contains(versionVariables(), m.variable):
		var ok bool
		if m.with, m.wild, ok = comparand(p.form, m.op, m.text); !ok {
			return fmt.Errorf("the marker compares %s with %s, which is not a version", m.variable, quote(m.text))
		}
	case m.op == "~=":
		return fmt.Errorf("the marker compares %s, which is not a version, by ~=", m.variable)
	}
	return nil
}

func (p *markerParser) operator() (string, error) {
	p.space()
	for _, op := range []string{"===", "~=", "==", "!=", "<=", ">=", "<", ">"} {
		if after, ok := strings.CutPrefix(p.rest, op); ok {
			p.rest = after
			return op, nil
		}
	}
	if p.word("in") {
		return "in", nil
	}
	if p.word("not") && p.word("in") {
		return "not in", nil
	}
	return "", fmt.Errorf("the marker has no valid comparison at %s", quote(p.rest))
}

// operand parses a variable or a quoted text.
func (p *markerParser) operand() (value string, isText bool, err error) {
	p.space()
	if p.rest != "" && (p.rest[0] == '\'' || p.rest[0] == '"') {
		text, after, ok := strings.Cut(p.rest[1:], p.rest[:1])
		if !ok || strings.ContainsAny(text, `\`) {
			return "", false, fmt.Errorf("the marker has no valid text at %s", quote(p.rest))
		}
		p.rest = after
		return text, true, nil
	}
	n := 0
	for n < len(p.rest) && nameByte(p.rest[n]) {
		n++
	}
	value, p.rest = p.rest[:n], p.rest[n:]
	if value != extra && !slices.Contains(Variables(), value) {
		return "", false, fmt.Errorf("the marker has no valid variable at %s", quote(value+p.rest))
	}
	return value, false, nil
}

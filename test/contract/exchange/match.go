package exchange

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Fault is one difference between a response and the expected one.
type Fault struct {
	// Path is the location of the difference, for example `items[0].id`, `header X-Request-Id` or `status`.
	Path      string
	Want, Got string
}

func (f Fault) String() string {
	if f.Path == "" {
		f.Path = "body"
	}
	return fmt.Sprintf("%s: want %s, got %s", f.Path, f.Want, f.Got)
}

// nothing represents a missing value in a Fault.
const nothing = "nothing"

// comparison collects the differences. It calls capture for each captured value.
type comparison struct {
	faults  []Fault
	capture func(name, value string)
}

// Match returns the differences between a value and the expected value. It calls the function capture for each
// captured value.
func Match(want, got any, capture func(name, value string)) []Fault {
	m := &comparison{capture: capture}
	m.value("", want, got)
	return m.faults
}

func (m *comparison) fault(path, want, got string) {
	m.faults = append(m.faults, Fault{path, want, got})
}

func (m *comparison) value(path string, want, got any) {
	switch want := want.(type) {
	case string:
		m.text(path, want, got)
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			m.fault(path, "an object", show(got))
			return
		}
		m.object(path, want, object)
	case []any:
		list, ok := got.([]any)
		if !ok {
			m.fault(path, "an array", show(got))
			return
		}
		m.array(path, want, list)
	default:
		if !equal(want, got) {
			m.fault(path, show(want), show(got))
		}
	}
}

// text compares a value with a string, which may be a matcher.
func (m *comparison) text(path, want string, got any) {
	matcher, found := parseMatcher(want)
	if !found {
		if !equal(want, got) {
			m.fault(path, show(want), show(got))
		}
		return
	}
	fault, captured := matcher.check(got)
	switch fault {
	case "":
		if matcher.as != "" {
			m.capture(matcher.as, captured)
		}
	case mismatch:
		m.fault(path, want, show(got))
	default:
		m.fault(path, want+" ("+fault+")", show(got))
	}
}

const (
	rest = "<<rest>>"
	each = "<<each>>"
	some = "<<some>>"
)

func (m *comparison) object(path string, want, got map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if name == rest {
			continue
		}
		v, there := got[name]
		if !there {
			m.fault(member(path, name), show(want[name]), nothing)
			continue
		}
		m.value(member(path, name), want[name], v)
	}
	if _, open := want[rest]; open {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, known := want[name]; !known {
			m.fault(member(path, name), nothing, show(got[name]))
		}
	}
}

func (m *comparison) array(path string, want, got []any) {
	if len(want) > 0 && (want[0] == each || want[0] == some) {
		m.directives(path, want, got)
		return
	}
	for i := range max(len(want), len(got)) {
		at := path + "[" + strconv.Itoa(i) + "]"
		switch {
		case i >= len(got):
			m.fault(at, show(want[i]), nothing)
		case i >= len(want):
			m.fault(at, nothing, show(got[i]))
		default:
			m.value(at, want[i], got[i])
		}
	}
}

// directives compares a list with pairs. Each pair consists of `<<each>>` or `<<some>>` and an expected element.
func (m *comparison) directives(path string, want, got []any) {
	for i := 0; i < len(want); i += 2 {
		if i+1 == len(want) || (want[i] != each && want[i] != some) {
			m.fault(path, "pairs of <<each>> or <<some>> and an element", show(want[i]))
			return
		}
		if want[i] == each {
			m.every(path, want[i+1], got)
		} else {
			m.one(path, want[i+1], got)
		}
	}
}

func (m *comparison) every(path string, want any, got []any) {
	if len(got) == 0 {
		m.fault(path, "at least one "+show(want), "[]")
	}
	for i, v := range got {
		m.value(path+"["+strconv.Itoa(i)+"]", want, v)
	}
}

// one requires that an element matches. It keeps only the captures of that element.
func (m *comparison) one(path string, want any, got []any) {
	var nearest []Fault
	for i, v := range got {
		captured := map[string]string{}
		try := &comparison{capture: func(name, value string) { captured[name] = value }}
		try.value(path+"["+strconv.Itoa(i)+"]", want, v)
		if len(try.faults) == 0 {
			for name, value := range captured {
				m.capture(name, value)
			}
			return
		}
		if nearest == nil || len(try.faults) < len(nearest) {
			nearest = try.faults
		}
	}
	m.fault(path, "one element like "+show(want), show(got))
	m.faults = append(m.faults, nearest...)
}

// faultLines joins the faults into a message.
func faultLines(faults []Fault) string {
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = "  " + f.String()
	}
	return strings.Join(lines, "\n")
}

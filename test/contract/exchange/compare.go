package exchange

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

const requestID = "X-Request-Id"

// compare returns all differences between a response and the expected response r. The parameter want is the expected
// body after the replacement of variables.
func (p *runner) compare(r Response, want, method string, a Received, capture func(name, value string)) []Fault {
	m := &comparison{capture: capture}
	if a.Status != r.Status {
		m.fault("status", strconv.Itoa(r.Status), strconv.Itoa(a.Status))
	}
	named := false
	for _, f := range r.Header {
		named = named || strings.EqualFold(f.Name, requestID)
		value, err := p.fill(f.Value)
		if err != nil {
			m.fault("header "+f.Name, f.Value, err.Error())
			continue
		}
		m.header(f.Name, value, a.Header)
	}
	if !named {
		m.header(requestID, "<<id req>>", a.Header)
	}
	if method == http.MethodHead && len(a.Body) == 0 && want == "" {
		return m.faults
	}
	m.body(want, a)
	return m.faults
}

// header requires that one of the response's header fields with this name matches the expected text.
func (m *comparison) header(name, want string, got http.Header) {
	values := got.Values(name)
	if want == "<<absent>>" {
		if len(values) > 0 {
			m.fault("header "+name, nothing, show(strings.Join(values, ", ")))
		}
		return
	}
	var faults []Fault
	for _, v := range values {
		try := &comparison{capture: m.capture}
		try.text("header "+name, want, v)
		if len(try.faults) == 0 {
			return
		}
		faults = append(faults, try.faults...)
	}
	if len(values) == 0 {
		m.fault("header "+name, show(want), nothing)
	}
	m.faults = append(m.faults, faults...)
}

// body compares the bodies as JSON if the expected one is JSON, otherwise as text.
func (m *comparison) body(want string, a Received) {
	switch {
	case want == "<<any>>":
		return
	case want == "":
		if len(a.Body) > 0 {
			m.fault("body", nothing, show(string(a.Body)))
		}
		return
	case len(a.Body) == 0:
		m.fault("body", show(want), nothing)
		return
	}
	expected, err := Decode([]byte(want))
	if err != nil && strings.ContainsAny(want[:1], `{["`) {
		m.fault("body", "JSON in the golden", err.Error())
		return
	}
	if err != nil || isText(want) {
		if textFault(want, string(a.Body), m.capture) != "" {
			m.fault("body", show(want), show(string(a.Body)))
		}
		return
	}
	got, err := Decode(a.Body)
	if err != nil {
		m.fault("body", "one JSON value", err.Error()+": "+show(string(a.Body)))
		return
	}
	m.value("", expected, got)
}

var textual = regexp.MustCompile(`(?s)^<<text (like|LIKE) (.*?)(?: as ([a-z][a-z0-9_]*))?>>$`)

// isText reports whether the expected body is a text matcher.
func isText(want string) bool { return textual.MatchString(want) }

// textFault compares a text with the expected one, which may be the matcher `<<text LIKE …>>`. It returns "" if they
// match.
func textFault(want, got string, capture func(name, value string)) string {
	found := textual.FindStringSubmatch(want)
	if found == nil {
		return faultUnless(strings.TrimRight(got, "\n") == want)
	}
	fault, captured := like(found[2], got, true)
	if fault == "" && found[3] != "" && capture != nil {
		capture(found[3], captured)
	}
	return fault
}

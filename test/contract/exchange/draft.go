package exchange

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// shortest is the minimum length of a value that draft replaces by a variable.
const shortest = 6

// draft turns a response into an expected body. It replaces values that differ between runs by matchers or
// variables. The author of the golden must review the result.
func (p *runner) draft(body []byte) string {
	v, err := Decode(body)
	if err != nil {
		return string(body)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(p.general(v)); err != nil {
		return string(body)
	}
	return strings.TrimSpace(b.String())
}

var (
	anID  = regexp.MustCompile(`^([a-z]+)_` + ulid + `$`)
	aJWT  = regexp.MustCompile(`^eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)
	aDate = patterns["time"]
)

func (p *runner) general(v any) any {
	switch v := v.(type) {
	case string:
		return p.generalText(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = p.general(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = p.general(v[name])
		}
		return out
	default:
		return v
	}
}

func (p *runner) generalText(text string) string {
	for _, name := range slices.Sorted(maps.Keys(p.vars)) {
		if value := p.vars[name]; len(value) >= shortest {
			text = strings.ReplaceAll(text, value, "{{"+name+"}}")
		}
	}
	switch id := anID.FindStringSubmatch(text); {
	case aDate.MatchString(text):
		return "<<time>>"
	case patterns["digest"].MatchString(text):
		return "<<digest>>"
	case id != nil:
		return "<<id " + id[1] + ">>"
	case aJWT.MatchString(text):
		return "<<string>>"
	default:
		return text
	}
}

// Fill replaces question marks in the text of a golden by drafts. Each draft is keyed by the number of its
// step.
func Fill(text string, drafts map[int]string) string {
	const sign = "-- request"
	parts := strings.Split(text, sign)
	for i, body := range drafts {
		if i+1 < len(parts) {
			parts[i+1] = strings.Replace(parts[i+1], "\n\n"+unwritten+"\n", "\n\n"+body+"\n", 1)
		}
	}
	return strings.Join(parts, sign)
}

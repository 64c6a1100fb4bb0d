package exchange

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// shortest is the length from which on a variable's value is looked for in an answer.
const shortest = 6

// draft is an answer as a golden would expect it: what differs from run to run is a matcher or a variable. It is for
// its writer to judge.
func (p *player) draft(body []byte) string {
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

func (p *player) general(v any) any {
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

func (p *player) generalText(text string) string {
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

// Fill puts the drafts of steps, by their number, in the places of the question marks of a golden's text.
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

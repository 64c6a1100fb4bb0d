package exchange

import (
	"fmt"
	"regexp"
	"strings"
)

// matcher is an expectation that is no value: `<<int>>`, `<<id job as mine>>`, `<<null or time>>`.
type matcher struct {
	null bool
	kind string
	arg  string
	// as is the variable that the value is kept in.
	as string
}

var captured = regexp.MustCompile(`^(.*) as ([a-z][a-z0-9_]*)$`)

// asMatcher reads a matcher out of the text between its signs; found is false for any other text.
func asMatcher(text string) (m matcher, found bool) {
	if !strings.HasPrefix(text, "<<") || !strings.HasSuffix(text, ">>") || len(text) < 5 {
		return matcher{}, false
	}
	text = text[2 : len(text)-2]
	if c := captured.FindStringSubmatch(text); c != nil {
		text, m.as = c[1], c[2]
	}
	text, m.null = strings.CutPrefix(text, "null or ")
	m.kind, m.arg, _ = strings.Cut(text, " ")
	return m, true
}

const ulid = `[0-7][0-9a-hjkmnp-tv-z]{25}`

// patterns are the kinds of strings.
var patterns = map[string]*regexp.Regexp{
	"time":   regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`),
	"digest": regexp.MustCompile(`^sha256:[0-9a-f]{64}$`),
}

// takes says what is wrong about a value; empty where nothing is. kept is what a capture keeps of it.
func (m matcher) takes(v any) (fault, kept string) {
	text, isText := v.(string)
	kept = text
	if !isText {
		kept = show(v)
	}
	if m.null && v == nil {
		return "", kept
	}
	switch m.kind {
	case "any":
		return "", kept
	case "string", "int", "bool":
		return told(kind(v) == m.kind), kept
	case "number":
		return told(kind(v) == "int" || kind(v) == "float"), kept
	case "time", "digest":
		return told(isText && patterns[m.kind].MatchString(text)), kept
	case "id":
		re, err := regexp.Compile(`^` + regexp.QuoteMeta(m.arg) + `_` + ulid + `$`)
		return told(err == nil && isText && re.MatchString(text)), kept
	case "like", "LIKE":
		return like(m.arg, text, isText)
	default:
		return fmt.Sprintf("the matcher %q is not known", m.kind), kept
	}
}

func told(holds bool) string {
	if holds {
		return ""
	}
	return mismatch
}

// mismatch is the fault that needs no words: what was wanted stands beside what was there.
const mismatch = "differs"

// like matches the whole text. A capture keeps the first group where there is one.
func like(expression, text string, isText bool) (fault, kept string) {
	re, err := regexp.Compile(`^(?s:` + expression + `)$`)
	if err != nil {
		return err.Error(), text
	}
	found := re.FindStringSubmatch(text)
	switch {
	case !isText || found == nil:
		return mismatch, text
	case len(found) > 1:
		return "", found[1]
	default:
		return "", text
	}
}

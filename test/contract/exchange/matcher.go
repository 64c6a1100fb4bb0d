package exchange

import (
	"fmt"
	"regexp"
	"strings"
)

// matcher is an expectation that matches more than one value: `<<int>>`, `<<id job as mine>>`, `<<null or time>>`.
type matcher struct {
	null bool
	kind string
	arg  string
	// as is the variable that captures the value.
	as string
}

var captured = regexp.MustCompile(`^(.*) as ([a-z][a-z0-9_]*)$`)

// asMatcher parses a matcher between << and >>; found is false for any other text.
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

// patterns holds the matchers that are fixed patterns of strings.
var patterns = map[string]*regexp.Regexp{
	"time":   regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`),
	"digest": regexp.MustCompile(`^sha256:[0-9a-f]{64}$`),
}

// takes returns why the value does not match, or "" if it does. kept is the captured text.
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
		return faultUnless(kind(v) == m.kind), kept
	case "number":
		return faultUnless(kind(v) == "int" || kind(v) == "float"), kept
	case "time", "digest":
		return faultUnless(isText && patterns[m.kind].MatchString(text)), kept
	case "id":
		re, err := regexp.Compile(`^` + regexp.QuoteMeta(m.arg) + `_` + ulid + `$`)
		return faultUnless(err == nil && isText && re.MatchString(text)), kept
	case "like", "LIKE":
		return like(m.arg, text, isText)
	default:
		return fmt.Sprintf("unknown matcher %q", m.kind), kept
	}
}

func faultUnless(holds bool) string {
	if holds {
		return ""
	}
	return mismatch
}

// mismatch is the fault without a reason of its own: the wanted and the actual value suffice.
const mismatch = "differs"

// like matches the whole text. A capture keeps the first group, if there is one, otherwise the whole text.
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

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

var captureName = regexp.MustCompile(`^(.*) as ([a-z][a-z0-9_]*)$`)

// parseMatcher parses a matcher in << and >>. The result found is false for any other text.
func parseMatcher(text string) (m matcher, found bool) {
	if !strings.HasPrefix(text, "<<") || !strings.HasSuffix(text, ">>") || len(text) < 5 {
		return matcher{}, false
	}
	text = text[2 : len(text)-2]
	if c := captureName.FindStringSubmatch(text); c != nil {
		text, m.as = c[1], c[2]
	}
	text, m.null = strings.CutPrefix(text, "null or ")
	m.kind, m.arg, _ = strings.Cut(text, " ")
	return m, true
}

const ulid = `[0-7][0-9a-hjkmnp-tv-z]{25}`

// patterns contains the matchers for strings in a fixed format.
var patterns = map[string]*regexp.Regexp{
	"time":   regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$`),
	"digest": regexp.MustCompile(`^sha256:[0-9a-f]{64}$`),
}

// check returns the reason why the value does not match, or "" if it matches. The result captured is the text to
// capture.
func (m matcher) check(v any) (fault, captured string) {
	text, isText := v.(string)
	captured = text
	if !isText {
		captured = show(v)
	}
	if m.null && v == nil {
		return "", captured
	}
	switch m.kind {
	case "any":
		return "", captured
	case "string", "int", "bool":
		return faultUnless(kind(v) == m.kind), captured
	case "number":
		return faultUnless(kind(v) == "int" || kind(v) == "float"), captured
	case "time", "digest":
		return faultUnless(isText && patterns[m.kind].MatchString(text)), captured
	case "id":
		re, err := regexp.Compile(`^` + regexp.QuoteMeta(m.arg) + `_` + ulid + `$`)
		return faultUnless(err == nil && isText && re.MatchString(text)), captured
	case "like", "LIKE":
		return like(m.arg, text, isText)
	default:
		return fmt.Sprintf("unknown matcher %q", m.kind), captured
	}
}

func faultUnless(holds bool) string {
	if holds {
		return ""
	}
	return mismatch
}

// mismatch is the reason to report if the expected and the actual value alone explain the difference.
const mismatch = "differs"

// like matches the complete text against a regular expression. The result captured is the first group, or the text if
// the expression has no group.
func like(expression, text string, isText bool) (fault, captured string) {
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

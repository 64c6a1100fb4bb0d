package packager

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// parseClass parses a set of characters of a pattern, such as `[a-z_]` or `[![:digit:]]`. The text begins after the opening
// bracket. It returns the text after the closing one, and false if there is none or a name in the set is unknown.
func parseClass(text string) (takes func(rune) bool, after string, ok bool) {
	negated := strings.HasPrefix(text, "!") || strings.HasPrefix(text, "^")
	if negated {
		text = text[1:]
	}
	var sets []func(rune) bool
	for first := true; text != ""; first = false {
		if text[0] == ']' && !first {
			return func(r rune) bool { return contains(sets, r) != negated }, text[1:], true
		}
		if named, found := strings.CutPrefix(text, "[:"); found {
			inner, rest, closed := strings.Cut(named, "]")
			if !closed {
				return nil, "", false
			}
			// Without the second colon, as in `[[:alpha]`, the bracket is a character of the set.
			if name, isName := strings.CutSuffix(inner, ":"); isName {
				set := namedClass(name)
				if set == nil {
					return nil, "", false
				}
				sets, text = append(sets, set), rest
				continue
			}
		}
		low, rest, valid := classRune(text)
		if !valid {
			return nil, "", false
		}
		high := low
		if strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "-]") {
			if high, rest, valid = classRune(rest[1:]); !valid {
				return nil, "", false
			}
		}
		sets, text = append(sets, func(r rune) bool { return low <= r && r <= high }), rest
	}
	return nil, "", false
}

func contains(sets []func(rune) bool, r rune) bool {
	for _, set := range sets {
		if set(r) {
			return true
		}
	}
	return false
}

// classRune returns the first character of a set, which a backslash may precede.
func classRune(text string) (r rune, rest string, ok bool) {
	text = strings.TrimPrefix(text, `\`)
	if text == "" {
		return 0, "", false
	}
	r, size := utf8.DecodeRuneInString(text)
	return r, text[size:], true
}

// namedClass returns a class of characters by its POSIX name, and nil if the name is unknown.
func namedClass(name string) func(rune) bool {
	switch name {
	case "alnum":
		return func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	case "alpha":
		return unicode.IsLetter
	case "blank":
		return func(r rune) bool { return r == ' ' || r == '\t' }
	case "cntrl":
		return unicode.IsControl
	case "digit":
		return unicode.IsDigit
	case "graph":
		return func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }
	case "lower":
		return unicode.IsLower
	case "print":
		return unicode.IsPrint
	case "punct":
		return func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }
	case "space":
		return unicode.IsSpace
	case "upper":
		return unicode.IsUpper
	case "xdigit":
		return func(r rune) bool { return strings.ContainsRune("0123456789abcdefABCDEF", r) }
	default:
		return nil
	}
}

package logview

import (
	"strings"
	"unicode/utf8"
)

func decodeRune(s string) (rune, int) { return utf8.DecodeRuneInString(s) }

// escape returns the escape sequence with which a text begins, as ECMA-48 defines it: a control sequence (ESC [), a
// command string (ESC ], P, X, ^ or _) up to its end, or two characters.
func escape(s string) string {
	if len(s) < 2 {
		return s
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return s[:i+1]
			}
			if s[i] < 0x20 || s[i] > 0x7e {
				return s[:i]
			}
		}
		return s
	case ']', 'P', 'X', '^', '_':
		return commandString(s)
	}
	_, size := utf8.DecodeRuneInString(s[1:])
	return s[:1+size]
}

// commandString returns the text up to BEL or ST (ESC \), or the whole text if the string does not end.
func commandString(s string) string {
	end := len(s)
	if i := strings.IndexByte(s, '\a'); i >= 0 {
		end = min(end, i+1)
	}
	if i := strings.Index(s, "\x1b\\"); i >= 0 {
		end = min(end, i+2)
	}
	return s[:end]
}

// isColor reports whether an escape sequence only selects colours and weights (SGR).
func isColor(s string) bool {
	const prefix = "\x1b["
	if len(s) <= len(prefix) || !strings.HasPrefix(s, prefix) || s[len(s)-1] != 'm' {
		return false
	}
	for _, c := range s[len(prefix) : len(s)-1] {
		if (c < '0' || c > '9') && c != ';' && c != ':' {
			return false
		}
	}
	return true
}

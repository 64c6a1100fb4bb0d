package logview

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	esc = 0x1b
	// Characters that begin a sequence in eight bits instead of ESC and a character: C1 of ECMA-48.
	c1First, c1Last = 0x80, 0x9f
	// fromC1 is the difference between a C1 character and the one that ESC stands before.
	fromC1 = 0x40
	stC1   = 0x9c
	c1Lead = 0xc2 // the first byte of a C1 character in UTF-8; the second one is its code
)

// sequence splits a text that begins with ESC or a C1 character after the escape sequence at its beginning, as ECMA-48
// defines it: a control sequence (ESC [), a command string (ESC ], P, X, ^ or _) up to its end, or ESC with intermediate
// characters and one more. Of a command string that does not end, only the beginning is cut off: what follows is a part of
// the line, which a stray character must not hide.
func sequence(s string) (cut, rest string) {
	r, size := utf8.DecodeRuneInString(s)
	kind := byte(0)
	switch {
	case r != esc:
		kind = byte(r - fromC1)
	case len(s) > size:
		kind = s[size]
		size++
	}
	switch kind {
	case '[':
		size = endOfControl(s, size)
	case ']', 'P', 'X', '^', '_':
		size = endOfString(s, size)
	default:
		if r == esc {
			size = endOfShort(s)
		}
	}
	return s[:size], s[size:]
}

// endOfControl returns the end of a control sequence whose parameters begin at i.
func endOfControl(s string, i int) int {
	for ; i < len(s); i++ {
		if s[i] >= 0x40 && s[i] <= 0x7e {
			return i + 1
		}
		if s[i] < 0x20 || s[i] > 0x7e {
			return i
		}
	}
	return i
}

// endOfString returns the end of a command string whose text begins at begin: after BEL or ST, or before a character that
// aborts it. Without an end, it is begin.
func endOfString(s string, begin int) int {
	for i := begin; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\a':
			return i + 1
		case c == esc && strings.HasPrefix(s[i:], "\x1b\\"):
			return i + len("\x1b\\")
		case c < 0x20 && c != '\t':
			return i
		case c == c1Lead && i+1 < len(s) && s[i+1] == stC1:
			return i + 2
		case c == c1Lead && i+1 < len(s) && s[i+1] <= c1Last:
			return i
		}
	}
	return begin
}

// endOfShort returns the end of ESC, intermediate characters and a final one. ESC before anything else stands alone.
func endOfShort(s string) int {
	i := 1
	for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
		i++
	}
	if i < len(s) && s[i] >= 0x30 && s[i] <= 0x7e {
		return i + 1
	}
	return 1
}

// maxColor is the maximum length of a sequence for colours.
const maxColor = 64

// isColor reports whether an escape sequence only selects colours and weights (SGR).
func isColor(s string) bool {
	const prefix = "\x1b["
	if len(s) <= len(prefix) || len(s) > maxColor || !strings.HasPrefix(s, prefix) || s[len(s)-1] != 'm' {
		return false
	}
	for _, c := range s[len(prefix) : len(s)-1] {
		if (c < '0' || c > '9') && c != ';' && c != ':' {
			return false
		}
	}
	return true
}

// shown reports whether a character is printed on a terminal.
func shown(r rune) bool {
	return r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) && r != '\u2028' && r != '\u2029'
}

// harmless returns a line without what would control a terminal. Colours are kept if they are shown, and end with the
// line.
func harmless(line string, color bool) string {
	if strings.IndexFunc(line, func(r rune) bool { return !shown(r) || r == utf8.RuneError }) < 0 {
		return line
	}
	var b strings.Builder
	colored := false
	for len(line) > 0 {
		r, size := utf8.DecodeRuneInString(line)
		switch {
		case r == esc || r >= c1First && r <= c1Last:
			var cut string
			if cut, line = sequence(line); color && isColor(cut) {
				b.WriteString(cut)
				colored = true
			}
			continue
		case r == utf8.RuneError:
			b.WriteRune(r) // a byte that is not UTF-8 could be a C1 character
		case shown(r):
			b.WriteString(line[:size])
		}
		line = line[size:]
	}
	if colored {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// Harmless returns a text, which may have several lines, without what would control a terminal.
func Harmless(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = harmless(line, false)
	}
	return strings.Join(lines, "\n")
}

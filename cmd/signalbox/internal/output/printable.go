package output

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Printable escapes the characters of a text that would control a terminal or change the order of the text around it. The
// result has one line.
func Printable(text string) string {
	if strings.IndexFunc(text, controls) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case controls(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escaped escapes the same characters in lines, as JSON does.
func escaped(lines string) string {
	kept := func(r rune) bool { return r == '\n' || r == '\t' || !controls(r) }
	if strings.IndexFunc(lines, func(r rune) bool { return !kept(r) }) < 0 {
		return lines
	}
	var b strings.Builder
	for _, r := range lines {
		if kept(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// controls reports whether a terminal acts on the character, or shows the characters around it in another order.
func controls(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar
}

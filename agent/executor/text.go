package executor

import (
	"strings"
	"unicode/utf8"
)

// Tail removes white space around text and returns at most the last n bytes, as valid UTF-8 without NUL
// bytes. If text is cut, the result starts at the beginning of a line where possible.
func Tail(text string, n int) string {
	text = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", ""))
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	if _, rest, found := strings.Cut(text, "\n"); found && rest != "" {
		return rest
	}
	return text
}

package read

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// text is a reported JSON value as a response shows it. Encoders escape characters in different ways, so the value is
// written in one way first: what is cut then depends on the text only.
type text struct {
	// plain is JSON in which only the characters are escaped that must be. It is nil if nothing was reported.
	plain []byte
	// quoted means that plain is a JSON string.
	quoted bool
	// part means that json returns a string, because a part of the value was left out: its characters before the first
	// one that was requested, or its end.
	part bool
	cut  bool
}

// newText returns a value without the characters before the given one. If a value is not a string, the characters are
// those of its JSON.
func newText(raw []byte, from int) *text {
	if raw == nil {
		return &text{}
	}
	t := &text{plain: unescaped(raw), quoted: raw[0] == '"'}
	if from == 0 {
		return t
	}
	body := t.body()
	t.plain, t.part = body[bytesOf(body, from):], true
	return t
}

// body returns the characters of the value, escaped as in a JSON string.
func (t *text) body() []byte {
	switch {
	case t.part:
		return t.plain
	case t.quoted:
		return t.plain[1 : len(t.plain)-1]
	}
	return escaped(t.plain)
}

// size returns the size of the JSON in the response, in bytes.
func (t *text) size() int { return len(t.plain) }

// json returns the JSON in the response: the value, or a string with a part of it, which ends in cut if the end of the
// value is missing.
func (t *text) json() []byte {
	if t.plain == nil || !t.part {
		return t.plain
	}
	out := append([]byte{'"'}, t.plain...)
	if t.cut {
		out = append(out, cut...)
	}
	return append(out, '"')
}

// level returns the highest size such that all texts fit into the given room if those that are longer are cut to it.
func level(texts []*text, room int) int {
	sizes := make([]int, len(texts))
	total := 0
	for i, t := range texts {
		sizes[i] = t.size()
		total += sizes[i]
	}
	if total <= room {
		return total
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := room / (len(sizes) - i); size > share {
			return share
		}
		room -= size
	}
	return room
}

// cutTogether cuts those of the texts that have more bytes than the limit with the same index, all at the same character. It
// returns the number of characters that it has kept of them, and whether it has cut any.
func cutTogether(texts []*text, most ...int) (kept int, cutAny bool) {
	kept = -1
	for i, t := range texts {
		if t.size() > most[i] {
			n := charsOf(t.body(), max(1, most[i]-len(cut)-2))
			if kept < 0 || n < kept {
				kept = n
			}
		}
	}
	if kept < 0 {
		return 0, false
	}
	for i, t := range texts {
		if t.size() > most[i] {
			body := t.body()
			t.plain, t.part, t.cut = body[:bytesOf(body, kept)], true, true
		}
	}
	return kept, true
}

// unit returns the length of the first character of the inside of a JSON string, as it is written there.
func unit(body []byte) int {
	if body[0] != '\\' {
		_, n := utf8.DecodeRune(body)
		return n
	}
	const escape = len(`\u0000`)
	if len(body) >= escape && body[1] == 'u' {
		return escape
	}
	return min(len(body), len(`\n`))
}

// bytesOf returns the number of bytes of the first n characters of body.
func bytesOf(body []byte, n int) (size int) {
	for ; n > 0 && size < len(body); n-- {
		size += unit(body[size:])
	}
	return size
}

// charsOf returns the number of characters of body that fit into the given number of bytes, at least one.
func charsOf(body []byte, most int) (n int) {
	for size := 0; size < len(body); n++ {
		if size += unit(body[size:]); size > most && n > 0 {
			break
		}
	}
	return n
}

// unescaped returns valid JSON with the same value in which only those characters are escaped that must be: quotation marks,
// backslashes, control characters and halves of surrogate pairs.
func unescaped(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' || i+1 == len(raw) {
			out = append(out, raw[i])
			i++
			continue
		}
		switch raw[i+1] {
		case 'u':
			c, n := codeOf(raw[i:])
			out = appendChar(out, c)
			i += n
		case '/':
			out = append(out, '/')
			i += 2
		default:
			out = append(out, raw[i], raw[i+1])
			i += 2
		}
	}
	return out
}

// codeOf returns the character of the escape \uXXXX at the beginning of raw, or of two of them that are a surrogate pair,
// and the length of what it has read. For half of a pair it returns the surrogate.
func codeOf(raw []byte) (c rune, n int) {
	const escape = len(`\u0000`)
	hex := func(at int) (rune, bool) {
		if len(raw) < at+escape || raw[at] != '\\' || raw[at+1] != 'u' {
			return 0, false
		}
		v, err := strconv.ParseUint(string(raw[at+2:at+escape]), 16, 32)
		return rune(v), err == nil
	}
	first, ok := hex(0)
	if !ok {
		return utf8.RuneError, len(raw) // not valid JSON, which is never stored
	}
	if second, ok := hex(escape); ok && utf16.IsSurrogate(first) {
		if pair := utf16.DecodeRune(first, second); pair != utf8.RuneError {
			return pair, 2 * escape
		}
	}
	return first, escape
}

// appendChar appends a character as it must be written in a JSON string.
func appendChar(out []byte, c rune) []byte {
	const digits = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		return append(out, '\\', byte(c))
	case c == '\n':
		return append(out, `\n`...)
	case c == '\r':
		return append(out, `\r`...)
	case c == '\t':
		return append(out, `\t`...)
	case c == '\b':
		return append(out, `\b`...)
	case c == '\f':
		return append(out, `\f`...)
	case c < ' ' || utf16.IsSurrogate(c):
		return append(out, '\\', 'u', digits[c>>12&15], digits[c>>8&15], digits[c>>4&15], digits[c&15])
	}
	return utf8.AppendRune(out, c)
}

// escaped returns JSON as the inside of a JSON string.
func escaped(json []byte) []byte {
	out := make([]byte, 0, len(json)+len(json)/8)
	for i := 0; i < len(json); {
		c, n := utf8.DecodeRune(json[i:])
		out = appendChar(out, c)
		i += n
	}
	return out
}

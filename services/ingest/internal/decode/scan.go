package decode

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// literal reads a word where it stands next.
func (r *Reader) literal(word string) bool {
	r.peek()
	if r.broken || !bytes.HasPrefix(r.data[r.pos:], []byte(word)) {
		return false
	}
	r.pos += len(word)
	return true
}

// number reads the text of a number by JSON's grammar.
func (r *Reader) number() ([]byte, bool) {
	c := r.peek()
	if c != '-' && (c < '0' || c > '9') {
		return nil, false
	}
	n, _ := numberEnd(r.data[r.pos:])
	if n == 0 {
		r.syntax("this is no number")
		return nil, true
	}
	raw := r.data[r.pos : r.pos+n]
	r.pos += n
	return raw, true
}

// numberEnd is the length of the number that b begins with, 0 where it is none; whole says that it has
// neither fraction nor exponent.
func numberEnd(b []byte) (n int, whole bool) {
	if n < len(b) && b[n] == '-' {
		n++
	}
	switch {
	case n < len(b) && b[n] == '0':
		n++
	default:
		from := n
		if n = digits(b, n); n == from {
			return 0, false
		}
	}
	whole = true
	if n < len(b) && b[n] == '.' {
		from := n + 1
		if n = digits(b, from); n == from {
			return 0, false
		}
		whole = false
	}
	if n < len(b) && (b[n] == 'e' || b[n] == 'E') {
		n++
		if n < len(b) && (b[n] == '+' || b[n] == '-') {
			n++
		}
		from := n
		if n = digits(b, n); n == from {
			return 0, false
		}
		whole = false
	}
	if n < len(b) && (b[n] >= '0' && b[n] <= '9') {
		return 0, false // a zero in front
	}
	return n, whole
}

func digits(b []byte, n int) int {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

// text reads a string; it answers false after a syntax error.
func (r *Reader) text() (string, bool) {
	if !r.expect('"') {
		return "", false
	}
	start := r.pos
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; {
		case c == '"':
			s := string(r.data[start:r.pos])
			r.pos++
			return s, true
		case c == '\\':
			return r.escaped(start)
		case c < 0x20:
			r.syntax("a control character in a string")
			return "", false
		}
		r.pos++
	}
	r.syntax("the string does not end")
	return "", false
}

// escaped goes on with a string from its first escape.
func (r *Reader) escaped(start int) (string, bool) {
	out := append([]byte{}, r.data[start:r.pos]...)
	for r.pos < len(r.data) {
		c := r.data[r.pos]
		r.pos++
		switch {
		case c == '"':
			return string(out), true
		case c < 0x20:
			r.syntax("a control character in a string")
			return "", false
		case c != '\\':
			out = append(out, c)
		default:
			ch, ok := r.escape()
			if !ok {
				r.syntax("a bad escape in a string")
				return "", false
			}
			out = utf8.AppendRune(out, ch)
		}
	}
	r.syntax("the string does not end")
	return "", false
}

// escape reads what follows a backslash; a half of a surrogate pair becomes U+FFFD.
func (r *Reader) escape() (rune, bool) {
	if r.pos >= len(r.data) {
		return 0, false
	}
	c := r.data[r.pos]
	r.pos++
	if i := bytes.IndexByte([]byte(`"\/bfnrt`), c); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), true
	}
	if c != 'u' {
		return 0, false
	}
	first, ok := r.hex()
	if !ok || !utf16.IsSurrogate(first) {
		return first, ok
	}
	if bytes.HasPrefix(r.data[r.pos:], []byte(`\u`)) {
		back := r.pos
		r.pos += 2
		second, ok := r.hex()
		if !ok {
			return 0, false
		}
		if both := utf16.DecodeRune(first, second); both != utf8.RuneError {
			return both, true
		}
		r.pos = back
	}
	return utf8.RuneError, true
}

func (r *Reader) hex() (rune, bool) {
	if r.pos+4 > len(r.data) {
		return 0, false
	}
	var v rune
	for _, c := range r.data[r.pos : r.pos+4] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			v = v<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	r.pos += 4
	return v, true
}

// Skip reads over the next value, whatever it is, and holds it to the same rules.
func (r *Reader) Skip() {
	switch c := r.peek(); {
	case r.broken:
	case c == '{':
		r.Map(func(string) { r.Skip() })
	case c == '[':
		r.Array(func(int) { r.Skip() })
	case c == '"':
		r.text()
	case r.literal("true"), r.literal("false"), r.literal("null"):
	default:
		if _, ok := r.special(); ok {
			return
		}
		raw, ok := r.number()
		switch {
		case !ok:
			r.syntax("want a value")
		case r.finite && overflows(raw):
			r.Wrong(fault.TypeFinite, notFinite)
		}
	}
}

// overflows tells that no double holds a number.
func overflows(raw []byte) bool {
	v, err := strconv.ParseFloat(string(raw), 64)
	return err != nil || math.IsInf(v, 0)
}

// Finite is Raw of a value in which every number is one that a double can hold.
func (r *Reader) Finite() []byte {
	r.finite = true
	defer func() { r.finite = false }()
	return r.Raw()
}

// Raw reads any value and answers its text, a copy without the white space around it. Bare NaN and
// infinities inside become their strings, so that what is kept is JSON.
func (r *Reader) Raw() []byte {
	r.peek()
	start := r.pos
	r.Skip()
	if r.broken {
		return nil
	}
	return quoteBare(r.data[start:r.pos])
}

// quoteBare puts quotes round the bare tokens that only Python writes.
func quoteBare(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] == '"' {
			end := stringEnd(raw, i)
			out = append(out, raw[i:end]...)
			i = end
			continue
		}
		word := bareWord(raw[i:])
		if word == "" {
			out = append(out, raw[i])
			i++
			continue
		}
		out = append(append(append(out, '"'), word...), '"')
		i += len(word)
	}
	return out
}

func bareWord(at []byte) string {
	for _, word := range [...]string{"-Infinity", "Infinity", "NaN"} {
		if bytes.HasPrefix(at, []byte(word)) {
			return word
		}
	}
	return ""
}

// stringEnd is behind the string that begins at i, which has been read before.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

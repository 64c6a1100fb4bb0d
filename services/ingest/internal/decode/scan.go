package decode

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// literal reads the given word if it comes next, and reports whether it did.
func (r *Reader) literal(word string) bool {
	r.peek()
	if r.broken || !bytes.HasPrefix(r.data[r.pos:], []byte(word)) {
		return false
	}
	r.pos += len(word)
	return true
}

// number reads a number and returns its text. It returns false if the next value does not begin like a number. A number
// that violates JSON's grammar is a syntax error; number then returns nil and true.
func (r *Reader) number() ([]byte, bool) {
	c := r.peek()
	if c != '-' && (c < '0' || c > '9') {
		return nil, false
	}
	n, _ := numberEnd(r.data[r.pos:])
	if n == 0 {
		r.syntax("invalid number")
		return nil, true
	}
	raw := r.data[r.pos : r.pos+n]
	r.pos += n
	return raw, true
}

// numberEnd returns the length of the number at the start of b, or 0 if the number is not valid. whole reports whether
// the number has neither a fraction nor an exponent.
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
		return 0, false // the number has a leading zero
	}
	return n, whole
}

func digits(b []byte, n int) int {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

// text reads a string. It returns false after a syntax error.
func (r *Reader) text() (string, bool) {
	r.unpaired = false
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
			r.syntax("control character in a string")
			return "", false
		}
		r.pos++
	}
	r.syntax("unterminated string")
	return "", false
}

// escaped reads the rest of a string that contains an escape. start is the position of the string's first character;
// the Reader is at the first escape.
func (r *Reader) escaped(start int) (string, bool) {
	out := append([]byte{}, r.data[start:r.pos]...)
	for r.pos < len(r.data) {
		c := r.data[r.pos]
		r.pos++
		switch {
		case c == '"':
			return string(out), true
		case c < 0x20:
			r.syntax("control character in a string")
			return "", false
		case c != '\\':
			out = append(out, c)
		default:
			ch, ok := r.escape()
			if !ok {
				r.syntax("invalid escape in a string")
				return "", false
			}
			out = utf8.AppendRune(out, ch)
		}
	}
	r.syntax("unterminated string")
	return "", false
}

// escape reads the rest of an escape after its backslash. It returns false if the escape is invalid. An unpaired
// surrogate becomes U+FFFD.
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
	r.unpaired = true
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

// Skip skips the next value of any type. A syntax error in the skipped value is reported as usual.
func (r *Reader) Skip() {
	switch c := r.peek(); {
	case r.broken:
	case c == '{':
		r.Map(func(string) { r.Skip() })
	case c == '[':
		r.Array(func(int) { r.Skip() })
	case c == '"':
		if _, ok := r.text(); ok && r.strict && r.unpaired {
			r.Wrong(fault.TypeValue, "String "+notUnpaired)
		}
	case r.literal("true"), r.literal("false"), r.literal("null"):
	default:
		if _, ok := r.special(); ok {
			return
		}
		raw, ok := r.number()
		switch {
		case !ok:
			r.syntax("expected a value")
		case r.strict && overflows(raw):
			r.Wrong(fault.TypeFinite, notFinite)
		}
	}
}

// overflows reports whether a number is too large for a double.
func overflows(raw []byte) bool {
	v, err := strconv.ParseFloat(string(raw), 64)
	return err != nil || math.IsInf(v, 0)
}

// Strict is like Raw, but a number that overflows a double is a fault, and so is a string with an unpaired surrogate.
func (r *Reader) Strict() []byte {
	r.strict = true
	defer func() { r.strict = false }()
	return r.Raw()
}

// Raw reads a value of any type and returns a copy of its text without surrounding white space. NaN and infinities
// without quotes are quoted in the copy, so that the copy is valid JSON. After a syntax error, Raw returns nil.
func (r *Reader) Raw() []byte {
	r.peek()
	start := r.pos
	r.Skip()
	if r.broken {
		return nil
	}
	return quoteBare(r.data[start:r.pos])
}

// quoteBare returns a copy of raw in which NaN, Infinity and -Infinity have quotes. Python writes them without quotes.
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

// stringEnd returns the position after the string that begins at i. The string must be valid.
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

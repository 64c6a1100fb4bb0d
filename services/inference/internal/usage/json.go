package usage

import (
	"bytes"
	"encoding/json"
	"math"
)

// state is what the scanner expects next, or what it is inside of.
type state uint8

const (
	inNothing state = iota // the rest is ignored, because it is not a JSON object
	atDocument
	atMember // after { or , in an object
	atColon
	atValue
	afterValue
	inKey
	inText    // a text that is kept
	inLiteral // a number, true, false or null
	inIgnored // an object or list that is not read
	inIgnoredText
)

const (
	// maxKept is the size up to which a text is kept, in bytes, before its escapes are decoded.
	maxKept = 2 << 10
	// maxLiteral is the size of the longest literal that is kept.
	maxLiteral = 24
	maxDepth   = 8
)

// scanner reads JSON documents that follow each other, part by part. It keeps only the members that the places name,
// and counts a document only if it is complete. Of an object or list that it ignores, it checks only the brackets.
type scanner struct {
	root  place
	state state
	// stack holds the open objects and lists, and next the place of the next value.
	stack [maxDepth]place
	depth int
	next  place
	// nested is the number of open brackets within an ignored value. within is the state to return to after an ignored
	// text. escaped is true after a backslash in a text.
	nested  int
	within  state
	escaped bool
	// kept holds the beginning of the current text, key or literal if it is split between parts or has escapes.
	kept []byte

	document found // of the document that is not complete
	dirty    bool  // document is not empty
	found    found
}

// start begins with a new document. Its outermost object has the given place.
func (s *scanner) start(root place) {
	s.root, s.state, s.depth, s.kept = root, atDocument, 0, s.kept[:0]
	if s.dirty {
		s.document, s.dirty = found{}, false
	}
}

// fresh reports whether the scanner is before a document.
func (s *scanner) fresh() bool { return s.state == atDocument }

// take reads the next part.
func (s *scanner) take(p []byte) {
	for i := 0; i < len(p) && s.state != inNothing; {
		switch s.state {
		case inKey, inText:
			i = s.text(p, i)
		case inLiteral:
			i = s.literal(p, i)
		case inIgnored:
			i = s.ignore(p, i)
		case inIgnoredText:
			i = s.ignoreText(p, i)
		default:
			if c := p[i]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				s.step(c)
			}
			i++
			if s.state == inLiteral {
				i-- // the first byte belongs to it
			}
		}
	}
}

// step handles a byte that is not white space, outside of texts and literals.
func (s *scanner) step(c byte) {
	switch s.state {
	case atDocument:
		if c != '{' {
			s.state = inNothing
			return
		}
		s.open(s.root, atMember)
	case atMember:
		switch c {
		case '"':
			s.state = inKey
		case '}':
			s.close(c)
		default:
			s.state = inNothing
		}
	case atColon:
		s.state = atValue
		if c != ':' {
			s.state = inNothing
		}
	case atValue:
		s.value(c)
	default: // afterValue
		s.after(c)
	}
}

// value handles the first byte of a value.
func (s *scanner) value(c byte) {
	if s.next.isCount() && c != 'n' { // null
		s.document.counts.mark(s.next)
		s.dirty = true
	}
	switch c {
	case '{', '[':
		if s.next == failure {
			s.document.failed, s.dirty = true, true
		}
		if s.next.isContainer() && s.next.isList() == (c == '[') && s.depth < maxDepth {
			s.open(s.next, atMember)
			if c == '[' {
				s.state, s.next = atValue, choice
			}
			return
		}
		s.state, s.nested = inIgnored, 1
	case '"':
		switch s.next {
		case model, finish, failure, kind:
			s.state = inText
		default:
			s.state, s.within = inIgnoredText, afterValue
		}
	case ']':
		s.close(c) // an empty list
	default:
		s.state = inLiteral
	}
}

func (s *scanner) open(p place, then state) {
	s.stack[s.depth], s.state = p, then
	s.depth++
}

func (s *scanner) after(c byte) {
	switch {
	case c != ',':
		s.close(c)
	case s.stack[s.depth-1].isList():
		s.state, s.next = atValue, choice
	default:
		s.state = atMember
	}
}

// close handles the end of an object or list that is read.
func (s *scanner) close(c byte) {
	if isList := s.stack[s.depth-1].isList(); isList && c != ']' || !isList && c != '}' {
		s.state = inNothing
		return
	}
	s.state = afterValue
	if s.depth--; s.depth == 0 {
		s.commit()
	}
}

// commit adds the complete document to what was found.
func (s *scanner) commit() {
	d, f := &s.document, &s.found
	f.counts.merge(&d.counts)
	f.failed, f.stream = f.failed || d.failed, f.stream || d.stream
	if d.model != "" {
		f.model = d.model
	}
	if d.finish != "" {
		f.finish = d.finish
	}
	s.start(s.root)
}

// text reads a key or a text that is kept.
func (s *scanner) text(p []byte, i int) int {
	begin := i
	for ; i < len(p); i++ {
		switch c := p[i]; {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			raw := p[begin:i]
			if len(s.kept) > 0 {
				s.keep(raw)
				raw = s.kept
			}
			s.complete(raw[:min(len(raw), maxKept)])
			s.kept = s.kept[:0]
			return i + 1
		}
	}
	s.keep(p[begin:])
	return i
}

func (s *scanner) keep(p []byte) {
	s.kept = append(s.kept, p[:min(len(p), maxKept-len(s.kept))]...)
}

// complete handles a key or text. The parameter raw has no quotes.
func (s *scanner) complete(raw []byte) {
	if s.state == inKey {
		s.state = atColon
		if bytes.IndexByte(raw, '\\') >= 0 {
			raw = []byte(decode(raw))
		}
		s.next = s.stack[s.depth-1].member(raw)
		return
	}
	s.state, s.dirty = afterValue, true
	d := &s.document
	switch s.next {
	case model:
		if d.model = s.found.model; string(raw) != d.model || bytes.IndexByte(raw, '\\') >= 0 {
			d.model = decode(raw)
		}
	case finish:
		d.finish = decode(raw)
	case failure:
		d.failed = d.failed || len(raw) > 0
	default: // kind
		if bytes.IndexByte(raw, '\\') >= 0 {
			raw = []byte(decode(raw))
		}
		d.failed = d.failed || string(raw) == "error" || string(raw) == "response.failed"
	}
}

// decode returns the text without its escapes. An escape at the end of a text that was cut is left out.
func decode(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	if len(raw) == maxKept {
		const longest = 12 // an escaped character of two units
		if i := bytes.IndexByte(raw[len(raw)-longest:], '\\'); i >= 0 {
			raw = raw[:len(raw)-longest+i]
		}
		if n := len(raw) - len(bytes.TrimRight(raw, `\`)); n%2 == 1 {
			raw = raw[:len(raw)-1] // the backslash that begins the escape
		}
		if n := len(raw) - 6; n >= 0 && bytes.HasPrefix(bytes.ToLower(raw[n:]), []byte(`\ud8`)) {
			raw = raw[:n] // the first unit of a character of two
		}
	}
	var text string
	if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &text) != nil {
		return ""
	}
	return text
}

// literal reads a number, true, false or null up to the byte after it.
func (s *scanner) literal(p []byte, i int) int {
	begin := i
	for i < len(p) && !endsLiteral(p[i]) {
		i++
	}
	raw := p[begin:i]
	if len(s.kept) > 0 || i == len(p) {
		if len(s.kept) < maxLiteral {
			s.kept = append(s.kept, raw[:min(len(raw), maxLiteral-len(s.kept))]...)
		}
		raw = s.kept
	}
	if i == len(p) {
		return i
	}
	s.kept = s.kept[:0]
	if s.state = afterValue; !isLiteral(raw) {
		s.state = inNothing
	}
	switch {
	case s.next.isCount():
		if n, ok := number(raw); ok {
			s.document.counts.set(s.next, n)
			s.dirty = true
		}
	case s.next == stream:
		s.document.stream, s.dirty = string(raw) == "true", true
	case s.next == failure && string(raw) == "true":
		s.document.failed, s.dirty = true, true
	}
	return i
}

// endsLiteral reports whether a byte ends a literal.
func endsLiteral(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\n', '\r', '\t', ':', '"', '{', '[':
		return true
	}
	return false
}

// isLiteral reports whether raw begins like a number, or is true, false or null.
func isLiteral(raw []byte) bool {
	switch string(raw) {
	case "true", "false", "null":
		return true
	}
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// number parses a number of tokens. ok is false unless it is an integer from 0 to the largest int32.
func number(raw []byte) (n int64, ok bool) {
	const digits = 10
	if len(raw) > digits || len(raw) > 1 && raw[0] == '0' {
		return 0, false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, n <= math.MaxInt32
}

// ignore reads an object or list that is not kept.
func (s *scanner) ignore(p []byte, i int) int {
	for i < len(p) {
		c := p[i]
		i++
		if c != '"' && c < '[' { // most bytes of a list of numbers
			continue
		}
		switch c {
		case '"':
			s.state, s.within = inIgnoredText, inIgnored
			if i = s.ignoreText(p, i); s.state != inIgnored {
				return i
			}
		case '{', '[':
			s.nested++
		case '}', ']':
			if s.nested--; s.nested == 0 {
				s.state = afterValue
				return i
			}
		}
	}
	return i
}

// ignoreText reads a text that is not kept, up to and with its final quote.
func (s *scanner) ignoreText(p []byte, i int) int {
	quote := -1 // the position of the next quote
	for i < len(p) {
		if s.escaped {
			s.escaped = false
			i++
			continue
		}
		if quote < i {
			if quote = bytes.IndexByte(p[i:], '"') + i; quote < i {
				quote = len(p)
			}
		}
		if n := bytes.IndexByte(p[i:quote], '\\'); n >= 0 {
			i += n + 1
			s.escaped = true
			continue
		}
		if quote == len(p) {
			return quote
		}
		s.state = s.within
		return quote + 1
	}
	return i
}

package restjson

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// syntaxError stops the reader because the bytes from offset on are not valid JSON.
type syntaxError struct {
	offset int
	msg    string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.msg, e.offset) }

// scanner splits a JSON text into tokens. A method that is named after a token consumes that token or returns an
// error.
type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) fail(msg string) error { return &syntaxError{offset: s.pos, msg: msg} }

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, or 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos == len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// next consumes b if it is the next token.
func (s *scanner) next(b byte) bool {
	if s.peek() != b {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) end() error {
	if s.peek() != 0 || s.pos != len(s.data) {
		return s.fail("Extra data")
	}
	return nil
}

// word consumes a literal: true, false or null.
func (s *scanner) word(w string) error {
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		return s.fail("Expecting value")
	}
	s.pos += len(w)
	return nil
}

// number consumes a number and returns its text.
func (s *scanner) number() (string, error) {
	start := s.pos
	if s.at('-') {
		s.pos++
	}
	switch {
	case s.at('0'):
		s.pos++
	case s.digits() == 0:
		return "", s.fail("Expecting value")
	}
	if s.at('.') {
		s.pos++
		if s.digits() == 0 {
			return "", s.fail("Expecting a digit")
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if s.digits() == 0 {
			return "", s.fail("Expecting a digit")
		}
	}
	return string(s.data[start:s.pos]), nil
}

func (s *scanner) at(b byte) bool { return s.pos < len(s.data) && s.data[s.pos] == b }

func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}

// text consumes a string and returns its unescaped content.
func (s *scanner) text() (string, error) {
	s.pos++ // the opening quote, which the caller has checked
	start := s.pos
	var unescaped []byte
	for s.pos < len(s.data) {
		switch b := s.data[s.pos]; {
		case b == '"':
			plain := s.data[start:s.pos]
			s.pos++
			if unescaped == nil {
				return string(plain), nil
			}
			return string(append(unescaped, plain...)), nil
		case b == '\\':
			unescaped = append(unescaped, s.data[start:s.pos]...)
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			unescaped = utf8.AppendRune(unescaped, r)
			start = s.pos
		case b < ' ':
			return "", s.fail("Invalid control character")
		case b < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return "", s.fail("Invalid UTF-8")
			}
			s.pos += size
		}
	}
	return "", s.fail("Unterminated string")
}

// escape consumes one escape sequence or a surrogate pair.
func (s *scanner) escape() (rune, error) {
	s.pos++ // the backslash
	if s.pos == len(s.data) {
		return 0, s.fail("Unterminated string")
	}
	b := s.data[s.pos]
	s.pos++
	switch b {
	case '"', '\\', '/':
		return rune(b), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return s.unicode()
	default:
		s.pos--
		return 0, s.fail("Invalid escape")
	}
}

func (s *scanner) unicode() (rune, error) {
	r, err := s.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if s.pos+1 < len(s.data) && s.data[s.pos] == '\\' && s.data[s.pos+1] == 'u' {
		s.pos += 2
		low, err := s.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, s.fail("Unpaired surrogate")
}

func (s *scanner) hex4() (rune, error) {
	if len(s.data)-s.pos < 4 {
		return 0, s.fail("Invalid \\u escape")
	}
	n, err := strconv.ParseUint(string(s.data[s.pos:s.pos+4]), 16, 16)
	if err != nil {
		return 0, s.fail("Invalid \\u escape")
	}
	s.pos += 4
	return rune(n), nil
}

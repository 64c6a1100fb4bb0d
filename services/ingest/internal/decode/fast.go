package decode

import (
	"bytes"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// scanner reads the common form of a metrics request. Its methods return false for all other input, for example a
// syntax error, an escape, a duplicate name, a time that is not in UTC, NaN or a number out of range. A
// Reader then reads the body instead.
type scanner struct {
	data []byte
	pos  int
}

func fast(data []byte, into *Columns) bool {
	if !utf8.Valid(data) {
		return false
	}
	s := &scanner{data: data}
	var seen uint8
	ok := s.object(func(name []byte) bool {
		switch {
		case string(name) == "run_id" && seen&1 == 0:
			seen |= 1
			text, ok := s.plain()
			into.RunID = string(text)
			return ok && len(text) > 0 && len(text) <= MaxRunID
		case string(name) == "points" && seen&2 == 0:
			seen |= 2
			return s.points(into)
		case string(name) == "rank" && seen&4 == 0:
			seen |= 4
			rank, ok := s.integer()
			into.Rank = new(int32(rank))
			return ok && rank >= 0 && rank <= MaxRank
		}
		return false
	})
	s.space()
	return ok && seen&3 == 3 && s.pos == len(data)
}

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

// is skips white space and reports whether c is the next byte. If so, it reads the byte.
func (s *scanner) is(c byte) bool {
	s.space()
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// plain reads a string without escapes. The result is a slice of the body.
func (s *scanner) plain() ([]byte, bool) {
	if !s.is('"') {
		return nil, false
	}
	rest := s.data[s.pos:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return nil, false
	}
	for _, c := range rest[:end] {
		if c < 0x20 || c == '\\' {
			return nil, false
		}
	}
	s.pos += end + 1
	return rest[:end], true
}

func (s *scanner) object(visit func(name []byte) bool) bool {
	if !s.is('{') {
		return false
	}
	for first := true; !s.is('}'); first = false {
		if !first && !s.is(',') {
			return false
		}
		name, ok := s.plain()
		if !ok || !s.is(':') || !visit(name) {
			return false
		}
	}
	return true
}

func (s *scanner) points(into *Columns) bool {
	if !s.is('[') {
		return false
	}
	for first := true; !s.is(']'); first = false {
		if (!first && !s.is(',')) || into.Len() == MaxPoints || !s.point(into) {
			return false
		}
	}
	return true
}

const (
	sawKey = 1 << iota
	sawStep
	sawValue
	sawTime
	sawAll = 1<<iota - 1
)

// point reads one point. It does not call the method object, because a closure per point would cost an allocation per
// point.
func (s *scanner) point(into *Columns) bool {
	var (
		seen, bit uint8
		key       uint32
		step      int64
		value     float64
		micros    int64
		ok        bool
	)
	if !s.is('{') {
		return false
	}
	for !s.is('}') {
		if seen != 0 && !s.is(',') {
			return false
		}
		name, named := s.plain()
		if !named || !s.is(':') {
			return false
		}
		switch string(name) {
		case "key":
			bit = sawKey
			key, ok = s.key(into)
		case "step":
			bit = sawStep
			step, ok = s.integer()
		case "value":
			bit = sawValue
			value, ok = s.float()
		case "ts":
			bit = sawTime
			micros, ok = s.micros()
		default:
			return false
		}
		if !ok || seen&bit != 0 {
			return false
		}
		seen |= bit
	}
	if seen != sawAll {
		return false
	}
	into.add(key, step, value, micros)
	return true
}

func (s *scanner) key(into *Columns) (uint32, bool) {
	text, ok := s.plain()
	if !ok || len(text) == 0 || len(text) > MaxKey {
		return 0, false
	}
	return into.intern(text), true
}

func (s *scanner) integer() (int64, bool) {
	s.space()
	n, whole := numberEnd(s.data[s.pos:])
	if n == 0 || n > 18 || !whole {
		return 0, false
	}
	text := s.data[s.pos : s.pos+n]
	s.pos += n
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	var v int64
	for _, c := range text {
		v = v*10 + int64(c-'0')
	}
	if negative {
		v = -v
	}
	return v, true
}

func (s *scanner) float() (float64, bool) {
	s.space()
	n, _ := numberEnd(s.data[s.pos:])
	if n == 0 {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(s.data[s.pos:s.pos+n]), 64)
	s.pos += n
	return v, err == nil && !math.IsInf(v, 0)
}

// micros reads a UTC time as Python and Go write it, such as 2026-11-21T09:33:00Z or 2026-11-21T09:33:00.123456+00:00.
// The fraction has at most nine digits.
func (s *scanner) micros() (int64, bool) {
	text, ok := s.plain()
	const head = len("2026-11-21T09:33:00")
	if !ok || len(text) < head+1 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return 0, false
	}
	var part [6]int
	for i, at := range [6][2]int{{0, 4}, {5, 7}, {8, 10}, {11, 13}, {14, 16}, {17, 19}} {
		if part[i], ok = decimal(text[at[0]:at[1]]); !ok {
			return 0, false
		}
	}
	micro, rest, ok := fraction(text[head:])
	if !ok || (string(rest) != "Z" && string(rest) != "+00:00") {
		return 0, false
	}
	year, month, day := part[0], part[1], part[2]
	if year < 1 || month < 1 || month > 12 || day < 1 || part[3] > 23 || part[4] > 59 || part[5] > 59 {
		return 0, false
	}
	t := time.Date(year, time.Month(month), day, part[3], part[4], part[5], micro*1000, time.UTC)
	return t.UnixMicro(), t.Day() == day // time.Date turns February 30 into March 2, for example
}

// fraction reads an optional fraction of a second and truncates it to microseconds.
func fraction(text []byte) (micro int, rest []byte, ok bool) {
	if text[0] != '.' {
		return 0, text, true
	}
	n := digits(text, 1)
	if n == 1 || n > 10 {
		return 0, nil, false
	}
	for i := 1; i <= 6; i++ {
		micro *= 10
		if i < n {
			micro += int(text[i] - '0')
		}
	}
	return micro, text[n:], true
}

func decimal(text []byte) (int, bool) {
	v := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return v, true
}

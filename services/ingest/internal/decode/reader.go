// Package decode reads the request bodies of training code in one pass. It rejects unknown and duplicate names, names
// in a different case, wrong types, data after the value and invalid UTF-8. Each fault has the path of its field. All
// faults of a body, 50 at most, are reported together, but a syntax error is reported alone. A value is never converted
// to another type; only NaN and the infinities may be strings.
package decode

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/timestamp"
)

const (
	maxDepth = 64
	// maxFaults is the maximum number of faults in one response.
	maxFaults = 50
	// maxNames is the maximum number of names in all open objects together. The Reader stores these names to detect
	// duplicates. Without the limit, a body with very many short names would need many times its own size in memory.
	maxNames = 128 << 10
)

// Reader reads one body. Its methods read the next value. After a syntax error, or after too many names, they do
// nothing.
type Reader struct {
	data   []byte
	pos    int
	depth  int
	names  int // number of names in the open objects
	path   []any
	faults []fault.Field
	broken bool // after a syntax error or too many names
	strict bool // Skip adds a fault for a number that overflows a double and for a string with an unpaired surrogate
	// unpaired reports whether the string that was read last has an unpaired surrogate.
	unpaired bool
}

// Body calls read, which must read the whole body. If the body has faults, Body returns an Invalid fault that lists
// them.
func Body(data []byte, read func(r *Reader)) error {
	r := &Reader{data: data, path: []any{"body"}}
	if !utf8.Valid(data) {
		return fault.InvalidFields(fault.At(fault.TypeJSON, "The body is not UTF-8", "body", 0))
	}
	read(r)
	r.space()
	if !r.broken && r.pos != len(r.data) {
		r.syntax("extra data after the value")
	}
	if len(r.faults) > 0 {
		return fault.InvalidFields(r.faults...)
	}
	return nil
}

// Wrong adds a fault at the current path, to which it appends the elements of below. It does nothing after a syntax
// error or if there are already maxFaults faults.
func (r *Reader) Wrong(typ, msg string, below ...any) {
	if len(r.faults) < maxFaults && !r.broken {
		r.faults = append(r.faults, fault.At(typ, msg, append(append([]any{}, r.path...), below...)...))
	}
}

// Faults returns the number of faults found so far.
func (r *Reader) Faults() int { return len(r.faults) }

// syntax replaces all faults by one syntax error and ends the reading.
func (r *Reader) syntax(msg string) {
	if !r.broken {
		r.faults = []fault.Field{fault.At(fault.TypeJSON, "JSON decode error: "+msg, "body", r.pos)}
		r.broken = true
	}
}

func (r *Reader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte without reading it. At the end, and after a syntax error, it returns
// 0.
func (r *Reader) peek() byte {
	if r.broken {
		return 0
	}
	r.space()
	if r.pos >= len(r.data) {
		return 0
	}
	return r.data[r.pos]
}

func (r *Reader) expect(c byte) bool {
	if r.peek() != c {
		r.syntax(fmt.Sprintf("expected %q", string(c)))
		return false
	}
	r.pos++
	return true
}

// Fields maps each name of an object to the function that reads its value.
type Fields map[string]func()

// Object reads an object. Each of its names must be in fields, and each required name must be present.
func (r *Reader) Object(fields Fields, required ...string) {
	seen := make(map[string]bool, len(fields))
	ok := r.Map(func(name string) {
		read, known := fields[name]
		if !known {
			r.Wrong(fault.TypeExtra, "Extra inputs are not permitted")
			r.Skip()
			return
		}
		seen[name] = true
		read()
	})
	for _, name := range required {
		if ok && !seen[name] {
			r.Wrong(fault.TypeMissing, "Field required", name)
		}
	}
}

// Map reads an object. It calls visit for every name except duplicates; visit must read the value of the
// name. Map returns false if the next value is not an object or has a syntax error.
func (r *Reader) Map(visit func(name string)) bool {
	if r.peek() != '{' {
		r.mistyped(fault.TypeDictType, "Input should be an object")
		return false
	}
	if !r.enter() {
		return false
	}
	defer func() { r.depth-- }()
	names := map[string]bool{}
	defer func() { r.names -= len(names) }()
	for r.peek() != '}' {
		if len(names) > 0 && !r.expect(',') {
			return false
		}
		name, ok := r.text()
		if !ok || !r.expect(':') {
			return false
		}
		r.field(names, name, visit)
		if r.broken {
			return false
		}
	}
	r.pos++
	return true
}

// field calls visit to read the value of one name of an object. A duplicate name is a fault, and its value is skipped.
// Reading ends if all open objects together have more than maxNames names.
func (r *Reader) field(names map[string]bool, name string, visit func(name string)) {
	if r.names == maxNames {
		r.limit(fault.TypeLong, "max_length", "Objects should have at most %d names together", maxNames)
		r.broken = true
		return
	}
	r.path = append(r.path, clip(name))
	if names[name] {
		r.Wrong(TypeDuplicate, "Name given more than once")
		r.Skip()
	} else {
		names[name] = true
		r.names++
		visit(name)
	}
	r.path = r.path[:len(r.path)-1]
}

// maxName is the length in bytes to which a name from a client is cut in the path of a fault.
const maxName = 128

func clip(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "") + "..."
}

// TypeDuplicate is the fault type of a duplicate name.
const TypeDuplicate = "duplicate_key"

// Array reads an array. It calls visit with the index of every item; visit must read the item. Array returns
// false if the next value is not an array or has a syntax error.
func (r *Reader) Array(visit func(i int)) bool {
	if r.peek() != '[' {
		r.mistyped(fault.TypeListType, "Input should be a list")
		return false
	}
	if !r.enter() {
		return false
	}
	defer func() { r.depth-- }()
	for i := 0; r.peek() != ']'; i++ {
		if i > 0 && !r.expect(',') {
			return false
		}
		r.path = append(r.path, i)
		visit(i)
		r.path = r.path[:len(r.path)-1]
		if r.broken {
			return false
		}
	}
	r.pos++
	return true
}

func (r *Reader) enter() bool {
	if r.depth++; r.depth > maxDepth {
		r.syntax("nested too deeply")
		r.depth--
		return false
	}
	r.pos++
	return true
}

// mistyped adds a fault for a wrong type and skips the value.
func (r *Reader) mistyped(typ, msg string) {
	r.Wrong(typ, msg)
	r.Skip()
}

// String reads a string.
func (r *Reader) String() string {
	if r.peek() != '"' {
		r.mistyped(fault.TypeStringType, "Input should be a valid string")
		return ""
	}
	s, _ := r.text()
	return s
}

// Int reads a 64-bit integer without fraction, exponent or quotes.
func (r *Reader) Int() int64 {
	n, within := r.integer()
	if !within {
		r.Wrong(fault.TypeIntParsing, fmt.Sprintf("Input should be an integer from %d to %d", math.MinInt64, math.MaxInt64))
	}
	return n
}

// integer reads an integer without fraction, exponent or quotes. If it does not fit into 64 bits, within is false and n
// is the nearest number that does.
func (r *Reader) integer() (n int64, within bool) {
	if _, odd := r.special(); odd {
		r.Wrong(fault.TypeIntType, "Input should be a valid integer")
		return 0, true
	}
	raw, ok := r.number()
	if !ok {
		r.mistyped(fault.TypeIntType, "Input should be a valid integer")
		return 0, true
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return n, false
	}
	if err != nil {
		r.Wrong(fault.TypeIntParsing, "Input should be a valid integer")
	}
	return n, true
}

const notFinite = "Input should be a number that a double can hold"

// Float reads a number. It also accepts NaN, Infinity and -Infinity, either as strings or without quotes, as Python
// writes them. A number that overflows is a fault.
func (r *Reader) Float() float64 {
	if v, ok := r.special(); ok {
		return v
	}
	raw, ok := r.number()
	if !ok {
		r.mistyped(fault.TypeFloatType, "Input should be a valid number")
		return 0
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(v, 0) {
		r.Wrong(fault.TypeFinite, notFinite)
	}
	return v
}

// special reads NaN or an infinity, with or without quotes, if it comes next. It reports whether it read one.
func (r *Reader) special() (float64, bool) {
	r.peek()
	for _, s := range [...]struct {
		text  string
		value float64
	}{{"NaN", math.NaN()}, {"-Infinity", math.Inf(-1)}, {"Infinity", math.Inf(1)}} {
		for _, text := range [...]string{s.text, `"` + s.text + `"`} {
			if end := r.pos + len(text); end <= len(r.data) && string(r.data[r.pos:end]) == text {
				r.pos = end
				return s.value, true
			}
		}
	}
	return 0, false
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	switch {
	case r.literal("true"):
		return true
	case r.literal("false"):
		return false
	}
	r.mistyped(fault.TypeBoolType, "Input should be true or false")
	return false
}

// Null reads null if it comes next, and reports whether it read null.
func (r *Reader) Null() bool { return r.literal("null") }

const notTime = "Input should be a timestamp with an offset, such as " + timestamp.Example

// Time reads a time in a form that package timestamp accepts, and returns it in UTC, truncated to microseconds.
func (r *Reader) Time() time.Time {
	if r.peek() != '"' {
		r.mistyped(fault.TypeDatetime, notTime)
		return time.Time{}
	}
	s, _ := r.text()
	t, ok := timestamp.Parse(s)
	if !ok || t.Year() < 1 || t.Year() > 9999 {
		r.Wrong(fault.TypeDatetime, notTime)
		return time.Time{}
	}
	return t.Truncate(time.Microsecond)
}

package decode

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Text reads a name. A name has at least low and at most high characters, and neither NUL nor unpaired surrogates. A
// text column of Postgres cannot contain a NUL. If unpaired surrogates were replaced, different names could become the
// same name.
func (r *Reader) Text(low, high int) string {
	before := len(r.faults)
	s := r.Bounded(low, high)
	switch {
	case len(r.faults) > before:
	case holdsNUL(s):
		r.Wrong(fault.TypeValue, "String "+notNUL)
	case r.unpaired:
		r.Wrong(fault.TypeValue, "String "+notUnpaired)
	}
	return s
}

const (
	notNUL      = "should not contain NUL"
	notUnpaired = "should not contain an unpaired surrogate"
)

func holdsNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// Bounded reads a string of at least low and at most high characters, which may contain NUL.
func (r *Reader) Bounded(low, high int) string {
	before := len(r.faults)
	s := r.String()
	if len(r.faults) > before || r.broken {
		return ""
	}
	switch n := utf8.RuneCountInString(s); {
	case n < low:
		r.limit(fault.TypeStringShort, "min_length", "String should have at least %d characters", low)
	case n > high:
		r.limit(fault.TypeStringLong, "max_length", "String should have at most %d characters", high)
	}
	return s
}

// IntIn reads an integer between low and high, inclusive.
func (r *Reader) IntIn(low, high int64) int64 {
	before := len(r.faults)
	n, _ := r.integer() // a number beyond 64 bits is beyond the bounds, too
	switch {
	case len(r.faults) > before || r.broken:
	case n < low:
		r.limit(fault.TypeGreaterThanEqual, "ge", "Input should be greater than or equal to %d", low)
	case n > high:
		r.limit(fault.TypeLessThanEqual, "le", "Input should be less than or equal to %d", high)
	}
	return n
}

// Enum reads a string that must be one of words. For any other value it adds a fault and returns "".
func (r *Reader) Enum(words ...string) string {
	before := len(r.faults)
	s := r.String()
	if len(r.faults) > before || r.broken {
		return ""
	}
	if slices.Contains(words, s) {
		return s
	}
	r.Wrong(fault.TypeEnum, fault.OneOf(words))
	return ""
}

// List reads an array as Array does. If the array has more items than the given maximum, List skips the rest and adds a
// fault.
func (r *Reader) List(most int, visit func(i int)) {
	long := false
	r.Array(func(i int) {
		if i >= most {
			long = true
			r.Skip()
			return
		}
		visit(i)
	})
	if long {
		r.limit(fault.TypeLong, "max_length", "List should have at most %d items", most)
	}
}

func (r *Reader) limit(typ, name, text string, limit any) {
	before := len(r.faults)
	r.Wrong(typ, fmt.Sprintf(text, limit))
	if len(r.faults) > before {
		r.faults[before].Ctx = map[string]any{name: limit}
	}
}

// Span calls read, which must read one value, and returns the text of that value in the form that Raw returns.
func (r *Reader) Span(read func()) []byte {
	r.peek()
	start := r.pos
	read()
	if r.broken {
		return nil
	}
	return quoteBare(r.data[start:r.pos])
}

// Optional reads a value with read, or returns nil for null.
func Optional[T any](r *Reader, read func() T) *T {
	if r.Null() {
		return nil
	}
	v := read()
	return &v
}

// Entries reads an object. It calls visit for every valid name (see Text); visit must read the value of the name.
// Entries adds a fault for each invalid name, and one fault if there are more names than the given maximum. It skips
// the values of invalid and surplus names.
func (r *Reader) Entries(most, low, high int, visit func(name string)) {
	count := 0
	r.Map(func(name string) {
		count++
		n := utf8.RuneCountInString(name)
		switch {
		case count > most:
			r.Skip()
		case n < low:
			r.limit(fault.TypeStringShort, "min_length", "Name should have at least %d characters", low)
			r.Skip()
		case n > high:
			r.limit(fault.TypeStringLong, "max_length", "Name should have at most %d characters", high)
			r.Skip()
		case holdsNUL(name):
			r.Wrong(fault.TypeValue, "Name "+notNUL)
			r.Skip()
		case r.unpaired:
			r.Wrong(fault.TypeValue, "Name "+notUnpaired)
			r.Skip()
		default:
			visit(name)
		}
	})
	if count > most {
		r.limit(fault.TypeLong, "max_length", "Object should have at most %d names", most)
	}
}

// Quoted reports whether the next value is a string.
func (r *Reader) Quoted() bool { return r.peek() == '"' }

// Nested reports whether the next value is an object.
func (r *Reader) Nested() bool { return r.peek() == '{' }

// Listed reports whether the next value is a list.
func (r *Reader) Listed() bool { return r.peek() == '[' }

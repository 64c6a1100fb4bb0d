package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Rules are the limits of a Reader.
type Rules struct {
	// Depth is the maximum nesting: 1 allows an object or an array without another one inside.
	Depth int
	// FoldNames treats names of an object as equal if they differ only in case.
	FoldNames bool
}

// DuplicateError reports a name that an object has more than once.
type DuplicateError struct{ Name string }

// Error implements error.
func (e *DuplicateError) Error() string { return fmt.Sprintf("duplicate member %q", e.Name) }

// Reader reads one JSON document value by value. Numbers keep their text. For a duplicate name it returns a
// *DuplicateError: parsers disagree on which of two equal names counts, and encoding/json silently uses the last one.
type Reader struct {
	in    *json.Decoder
	rules Rules
	depth int
}

// Read calls the function value, which must read exactly one JSON value, and returns its error. Data after the JSON
// value is an error.
func Read(raw []byte, rules Rules, value func(r *Reader) error) error {
	r := &Reader{in: json.NewDecoder(bytes.NewReader(raw)), rules: rules}
	r.in.UseNumber()
	if err := value(r); err != nil {
		return err
	}
	if _, err := r.in.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the JSON value")
	}
	return nil
}

// Next reads a string, a json.Number, a bool, a nil, or the start of an object or array. After json.Delim '{' the caller
// must call Members. After json.Delim '[' it must call Items.
func (r *Reader) Next() (json.Token, error) {
	token, err := r.in.Token()
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	return token, nil
}

// Object reads an object. It calls the function member with each name; this function must read the member's value.
func (r *Reader) Object(member func(name string) error) error {
	start, err := r.Next()
	if err != nil {
		return err
	}
	if start != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	return r.Members(member)
}

// Members reads the rest of an object.
func (r *Reader) Members(member func(name string) error) error {
	seen := map[string]struct{}{}
	return r.inside(func() error {
		token, err := r.Next()
		if err != nil {
			return err
		}
		name, _ := token.(string) // always a string here
		key := name
		if r.rules.FoldNames {
			key = strings.ToLower(name)
		}
		if _, twice := seen[key]; twice {
			return &DuplicateError{Name: name}
		}
		seen[key] = struct{}{}
		return member(name)
	})
}

// Items reads the rest of an array. It calls the function item for each element, which this function must read.
func (r *Reader) Items(item func() error) error { return r.inside(item) }

// inside calls the function visit until the object or array that was just opened ends.
func (r *Reader) inside(visit func() error) error {
	if r.depth++; r.depth > r.rules.Depth {
		return fmt.Errorf("nested deeper than %d", r.rules.Depth)
	}
	for r.in.More() {
		if err := visit(); err != nil {
			return err
		}
	}
	r.depth--
	_, err := r.Next()
	return err
}

// Raw reads a value of any type and returns its text. The rules do not apply inside it.
func (r *Reader) Raw() (json.RawMessage, error) {
	var raw json.RawMessage
	if err := r.in.Decode(&raw); err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	return raw, nil
}

// Skip reads a value of any type and discards it.
func (r *Reader) Skip() error {
	token, err := r.Next()
	switch token {
	case json.Delim('{'):
		return r.Members(func(string) error { return r.Skip() })
	case json.Delim('['):
		return r.Items(r.Skip)
	}
	return err
}

package jobspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/paramschema"
)

// ParamError describes an invalid parameter value.
type ParamError struct{ text string }

// Error implements error.
func (e *ParamError) Error() string { return e.text }

func badParam(format string, args ...any) error { return &ParamError{fmt.Sprintf(format, args...)} }

// CheckParams checks a flat object of parameters against a JSON Schema. Invalid parameters give a *ParamError; a broken
// schema gives another error, because it is not the user's fault.
func CheckParams(rawSchema, rawParams []byte) error {
	schema, err := paramschema.Compile(rawSchema)
	if err != nil {
		return fmt.Errorf("read the recipe's params_schema: %w", err)
	}
	params, err := flat(rawParams)
	if err != nil {
		return err
	}
	if n := elements(params); n > maxElements {
		return badParam("the lists of the parameters have %d elements together; write at most %d, and bind larger data as an input", n, maxElements)
	}
	if err := schema.Validate(withoutExtremes(params)); err != nil {
		return refusal(schema, params, err)
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if n, ok := params[name].(json.Number); ok && schema.Properties[name] != nil && extreme(n) {
			return badParam("%s is out of range", name)
		}
	}
	return nil
}

// flat decodes an object. It rejects an object in which a value contains another object.
func flat(raw []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, badParam("not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, badParam("not a single JSON object")
	}
	params, ok := v.(map[string]any)
	if !ok {
		return nil, badParam("not a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !isFlat(params[name]) {
			return nil, badParam("%s contains an object; parameters are flat, with dots in their names", name)
		}
	}
	return params, nil
}

// maxElements is the maximum number of elements of all lists together. Each of them can be compared with each value of an
// enumeration.
const maxElements = 4096

// elements returns the number of elements of lists in a value, also of lists in lists.
func elements(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += elements(e)
		}
	case []any:
		n = len(v)
		for _, e := range v {
			n += elements(e)
		}
	}
	return n
}

func isFlat(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return false
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !isFlat(e) })
	}
	return true
}

// withoutExtremes returns a copy of v with null in place of extreme numbers. The library computes with exact fractions:
// large exponents cost memory, and very large ones make it panic. A schema that requires a number refuses null.
func withoutExtremes(v any) any {
	switch v := v.(type) {
	case json.Number:
		if extreme(v) {
			return nil
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withoutExtremes(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			out[name] = withoutExtremes(e)
		}
		return out
	}
	return v
}

// maxDigits is the maximum length of a number, and the maximum absolute value of its exponent.
const maxDigits = 400

// extreme reports whether a number is outside the range of a double or has more digits than any use needs.
func extreme(n json.Number) bool {
	if _, err := n.Float64(); err != nil || len(n) > maxDigits {
		return true
	}
	_, exp, found := strings.Cut(strings.ToLower(string(n)), "e")
	if !found {
		return false
	}
	e, err := strconv.Atoi(exp)
	return err != nil || e > maxDigits || e < -maxDigits
}

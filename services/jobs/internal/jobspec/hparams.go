package jobspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// schema is the part of JSON Schema that describes the hyperparameters of recipes.
type schema struct {
	Properties           map[string]property `json:"properties"`
	Required             []string            `json:"required"`
	AdditionalProperties *bool               `json:"additionalProperties"`
}

type property struct {
	Type      string            `json:"type"`
	Enum      []json.RawMessage `json:"enum"`
	Minimum   *json.Number      `json:"minimum"`
	Maximum   *json.Number      `json:"maximum"`
	MinLength *int              `json:"minLength"`
	MaxLength *int              `json:"maxLength"`
}

// ParamError describes an invalid parameter value.
type ParamError struct{ text string }

// Error implements error.
func (e *ParamError) Error() string { return e.text }

func badParam(format string, args ...any) error { return &ParamError{fmt.Sprintf(format, args...)} }

// CheckParams checks a flat object of parameters against a schema. Invalid parameters give a *ParamError; a broken
// schema gives another error, because it is not the user's fault.
func CheckParams(rawSchema, rawParams []byte) error {
	var s schema
	if len(rawSchema) > 0 {
		if err := json.Unmarshal(rawSchema, &s); err != nil {
			return fmt.Errorf("read the recipe's params_schema: %w", err)
		}
	}
	params, err := flat(rawParams)
	if err != nil {
		return err
	}
	for _, name := range s.Required {
		if _, set := params[name]; !set {
			return badParam("%s is required", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		p, known := s.Properties[name]
		if !known {
			if s.AdditionalProperties != nil && !*s.AdditionalProperties {
				return badParam("%s is not a parameter of the recipe%s", name, didYouMean(name, s.Properties))
			}
			continue
		}
		if err := p.check(name, params[name]); err != nil {
			return err
		}
	}
	return nil
}

// flat decodes an object whose values contain no objects.
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

func isFlat(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return false
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !isFlat(e) })
	}
	return true
}

func (p property) check(name string, v any) error {
	if p.Type != "" && !hasType(v, p.Type) {
		return badParam("%s must be of type %s", name, p.Type)
	}
	if len(p.Enum) > 0 && !slices.ContainsFunc(p.Enum, func(raw json.RawMessage) bool { return equalJSON(raw, v) }) {
		words := make([]string, len(p.Enum))
		for i, raw := range p.Enum {
			words[i] = string(raw)
		}
		return badParam("%s must be one of %s", name, strings.Join(words, ", "))
	}
	if n, ok := v.(json.Number); ok {
		return p.bounds(name, n)
	}
	if s, ok := v.(string); ok {
		return p.length(name, len([]rune(s)))
	}
	return nil
}

func (p property) bounds(name string, n json.Number) error {
	value, ok := rational(n)
	if !ok {
		return badParam("%s is out of range", name)
	}
	if p.Minimum != nil {
		if low, ok := rational(*p.Minimum); ok && value.Cmp(low) < 0 {
			return badParam("%s must be at least %s, got %s", name, *p.Minimum, n)
		}
	}
	if p.Maximum != nil {
		if high, ok := rational(*p.Maximum); ok && value.Cmp(high) > 0 {
			return badParam("%s must be at most %s, got %s", name, *p.Maximum, n)
		}
	}
	return nil
}

func (p property) length(name string, n int) error {
	if p.MinLength != nil && n < *p.MinLength {
		return badParam("%s must have at least %d characters", name, *p.MinLength)
	}
	if p.MaxLength != nil && n > *p.MaxLength {
		return badParam("%s must have at most %d characters", name, *p.MaxLength)
	}
	return nil
}

// hasType reports whether a value has a JSON Schema type. A number without a fraction is an integer, even if
// written as 3.0.
func hasType(v any, want string) bool {
	switch v := v.(type) {
	case json.Number:
		n, ok := rational(v)
		return want == "number" && ok || want == "integer" && ok && n.IsInt()
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case []any:
		return want == "array"
	case nil:
		return want == "null"
	}
	return false
}

// maxDigits bounds the length and the exponent of a number, because exact arithmetic on larger ones costs memory.
const maxDigits = 400

// rational returns a number's exact value. It fails for numbers outside the range of a double.
func rational(n json.Number) (*big.Rat, bool) {
	if _, err := strconv.ParseFloat(string(n), 64); err != nil || len(n) > maxDigits {
		return nil, false
	}
	if _, exp, found := strings.Cut(strings.ToLower(string(n)), "e"); found {
		if e, err := strconv.Atoi(exp); err != nil || e > maxDigits || e < -maxDigits {
			return nil, false
		}
	}
	return new(big.Rat).SetString(string(n))
}

func equalJSON(raw json.RawMessage, v any) bool {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var want any
	if dec.Decode(&want) != nil {
		return false
	}
	a, aIs := want.(json.Number)
	b, bIs := v.(json.Number)
	if aIs && bIs {
		x, okX := rational(a)
		y, okY := rational(b)
		return okX && okY && x.Cmp(y) == 0
	}
	if _, isList := v.([]any); isList {
		return false
	}
	return want == v
}

// didYouMean suggests a known name that differs only in case or in the part before the last dot.
func didYouMean(name string, known map[string]property) string {
	last := name[strings.LastIndexByte(name, '.')+1:]
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if strings.EqualFold(k, name) || strings.EqualFold(k[strings.LastIndexByte(k, '.')+1:], last) {
			return "; did you mean " + k + "?"
		}
	}
	return ""
}

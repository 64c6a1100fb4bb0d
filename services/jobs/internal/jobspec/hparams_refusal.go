package jobspec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// mismatch is one way in which parameters do not match a schema. A mismatch of the object as a whole has no name.
type mismatch struct {
	name string
	text func() string
}

// maxTexts is the maximum number of mismatches of one parameter whose texts are written and compared.
const maxTexts = 16

// refusal turns the error of a validation into a *ParamError. It reports a mismatch of the whole object if
// there is one, otherwise the mismatch whose name sorts first, because the library visits properties in random order.
func refusal(schema *jsonschema.Schema, params map[string]any, err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	all := mismatches(schema, params, invalid)
	first := slices.MinFunc(all, func(a, b mismatch) int { return cmp.Compare(a.name, b.name) })
	all = slices.DeleteFunc(all, func(m mismatch) bool { return m.name != first.name })
	var texts []string
	for _, m := range all[:min(len(all), maxTexts)] {
		texts = append(texts, m.text())
	}
	return &ParamError{slices.Min(texts)}
}

// mismatches returns the mismatches that e describes, at least one.
func mismatches(schema *jsonschema.Schema, params map[string]any, e *jsonschema.ValidationError) []mismatch {
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		// Every cause is a mismatch of its own. That is not true for other kinds of errors: anyOf, for example, has a
		// cause for each alternative, although matching one alternative is enough.
		all := make([]mismatch, 0, len(e.Causes))
		for _, cause := range e.Causes {
			all = append(all, mismatches(schema, params, cause)...)
		}
		return all
	case *kind.AdditionalProperties:
		all := make([]mismatch, len(k.Properties))
		for i, name := range k.Properties {
			all[i] = mismatch{name, func() string { return name + " is not a parameter of the recipe" + didYouMean(name, schema.Properties) }}
		}
		return all
	}
	if len(e.InstanceLocation) == 0 {
		return []mismatch{{"", func() string { return wrong("the parameters", nil, e.ErrorKind) }}}
	}
	name, value := e.InstanceLocation[0], params[e.InstanceLocation[0]]
	at := name
	for _, index := range e.InstanceLocation[1:] {
		i, err := strconv.Atoi(index)
		list, ok := value.([]any)
		if err != nil || !ok || i >= len(list) {
			break
		}
		at, value = at+"["+index+"]", list[i]
	}
	return []mismatch{{name, func() string { return wrong(at, value, e.ErrorKind) }}}
}

// wrong states what is wrong with a value. For a keyword that it does not handle, it uses the text of the library.
func wrong(name string, value any, e jsonschema.ErrorKind) string {
	switch k := e.(type) {
	case *kind.Required:
		return k.Missing[0] + " is required"
	case *kind.Type:
		return name + " must be of type " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		words := make([]string, len(k.Want))
		for i, want := range k.Want {
			words[i] = compact(want)
		}
		return name + " must be one of " + strings.Join(words, ", ")
	case *kind.Minimum:
		return name + " must be at least " + decimal(k.Want) + ", got " + compact(value)
	case *kind.Maximum:
		return name + " must be at most " + decimal(k.Want) + ", got " + compact(value)
	case *kind.MinLength:
		return name + " must have at least " + strconv.Itoa(k.Want) + " characters"
	case *kind.MaxLength:
		return name + " must have at most " + strconv.Itoa(k.Want) + " characters"
	}
	return name + ": " + e.LocalizedString(message.NewPrinter(language.English))
}

// compact returns the JSON text of a value.
func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "another value"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// decimal returns the exact value of a number from a schema, which has a finite number of decimals.
func decimal(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	return r.FloatString(digits)
}

// didYouMean suggests a known name that differs only in case or in the part before the last dot.
func didYouMean(name string, known map[string]*jsonschema.Schema) string {
	last := name[strings.LastIndexByte(name, '.')+1:]
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if strings.EqualFold(k, name) || strings.EqualFold(k[strings.LastIndexByte(k, '.')+1:], last) {
			return "; did you mean " + k + "?"
		}
	}
	return ""
}

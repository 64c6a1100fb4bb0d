package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checkParams checks the schema of the hyperparameters that a project publishes. Each submission of a job checks values
// with this schema, so its checks must be cheap: a parameter is a scalar or a list of scalars, and keywords that combine
// or refer to schemas, which could make a check take for ever, are refused.
func checkParams(raw json.RawMessage) error {
	var s struct {
		Schema      string                                `json:"$schema"`
		Type        string                                `json:"type"`
		Title       string                                `json:"title"`
		Description string                                `json:"description"`
		Others      *bool                                 `json:"additionalProperties"`
		Properties  map[string]map[string]json.RawMessage `json:"properties"`
		Required    []string                              `json:"required"`
	}
	if len(raw) == 0 {
		return errors.New(`params_schema is missing; write a JSON Schema such as {"type": "object", "properties": {"optim.lr": {"type": "number"}}}`)
	}
	if err := decodeMember("params_schema", raw, &s); err != nil {
		return err
	}
	for _, name := range s.Required {
		if _, exists := s.Properties[name]; !exists {
			return fmt.Errorf("params_schema requires %q, which is not among its properties", name)
		}
	}
	switch {
	case s.Type != "object":
		return errors.New(`params_schema.type must be "object"`)
	case s.Schema != "" && s.Schema != draft2020:
		return fmt.Errorf("params_schema has the dialect %q; write %q", s.Schema, draft2020)
	case len(s.Properties) > maxParameters:
		return fmt.Errorf("params_schema has %d parameters; name at most %d", len(s.Properties), maxParameters)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if err := checkParam(name, s.Properties[name]); err != nil {
			return err
		}
	}
	return compileParams(raw, s.Properties)
}

const draft2020 = "https://json-schema.org/draft/2020-12/schema"

// maxNumber is the maximum length of a number in a schema. The numbers of its keywords are computed with as exact
// fractions, whose size grows with the exponent.
const maxNumber = 32

func checkParam(name string, keywords map[string]json.RawMessage) error {
	if name == "" || len(name) > maxChart {
		return fmt.Errorf("a parameter has a name of %d bytes; write 1 to %d", len(name), maxChart)
	}
	if err := checkType(name, keywords["type"]); err != nil {
		return err
	}
	for _, keyword := range slices.Sorted(maps.Keys(keywords)) {
		value := keywords[keyword]
		if keyword == "items" {
			var inner map[string]json.RawMessage
			if json.Unmarshal(value, &inner) != nil || inner == nil || inner["items"] != nil {
				return fmt.Errorf("params_schema: items of %s must be the schema of a number, a text or a boolean", name)
			}
			if err := checkParam(name, inner); err != nil {
				return err
			}
			continue
		}
		if !slices.Contains(paramKeywords(), keyword) {
			return fmt.Errorf("params_schema: %s has the keyword %q; a parameter may have %s and items", name, keyword, strings.Join(paramKeywords(), ", "))
		}
		if err := checkNumbers(name, value); err != nil {
			return err
		}
	}
	return nil
}

// checkType checks the keyword type of a parameter.
func checkType(name string, raw json.RawMessage) error {
	var one string
	var many []string
	if len(raw) == 0 {
		return fmt.Errorf("params_schema: %s has no type; write number, integer, string, boolean or array", name)
	}
	if json.Unmarshal(raw, &one) == nil {
		many = []string{one}
	} else if json.Unmarshal(raw, &many) != nil || len(many) == 0 {
		return fmt.Errorf("params_schema: the type of %s is %.40s; write number, integer, string, boolean or array", name, raw)
	}
	for _, kind := range many {
		if !slices.Contains([]string{"number", "integer", "string", "boolean", "array", "null"}, kind) {
			return fmt.Errorf("params_schema: the type of %s is %.40q; write number, integer, string, boolean or array", name, kind)
		}
	}
	return nil
}

// paramKeywords returns the keywords that the schema of a parameter may have besides items.
func paramKeywords() []string {
	return []string{
		"type", "enum", "const", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
		"pattern", "minItems", "maxItems", "title", "description", "examples",
	}
}

func checkNumbers(name string, raw json.RawMessage) error {
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	for {
		token, err := in.Token()
		if err != nil {
			return nil //nolint:nilerr // the end, because the manifest has been decoded
		}
		n, ok := token.(json.Number)
		if !ok {
			continue
		}
		if _, err := n.Float64(); err != nil || len(n) > maxNumber || tiny(string(n)) {
			return fmt.Errorf("params_schema: %s has the number %.40s; write one of at most %d characters between 1e-99 and 1e99", name, n, maxNumber)
		}
	}
}

// tiny reports whether a number has an exponent of three digits or more.
func tiny(number string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	return len(strings.TrimLeft(exponent, "+-0")) > 2
}

// compileParams compiles a schema and checks that each parameter accepts its default.
func compileParams(raw json.RawMessage, parameters map[string]map[string]json.RawMessage) error {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // nothing is read from files or the network
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("params_schema: %w", err)
	}
	const url = "recipe:///params_schema"
	if err := c.AddResource(url, doc); err != nil {
		return fmt.Errorf("params_schema: %w", err)
	}
	schema, err := c.Compile(url)
	if err != nil {
		return fmt.Errorf("params_schema: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		initial, set := parameters[name]["default"]
		if !set {
			continue
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(initial))
		if err == nil {
			err = schema.Properties[name].Validate(value)
		}
		if err != nil {
			return fmt.Errorf("params_schema: the default of %s is %.80s, which its schema does not accept", name, initial)
		}
	}
	return nil
}

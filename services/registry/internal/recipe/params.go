package recipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/signalbox-dev/signalbox/platform/paramschema"
)

// checkParams checks the schema of the hyperparameters that a project publishes. Each submission of a job compiles it and
// checks values with it, so both must be cheap: a parameter is a scalar or a list of scalars, patterns and enumerations
// are small, and keywords that combine or refer to schemas, which could make a check take for ever, are refused.
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
	case s.Schema != "" && s.Schema != paramschema.Draft:
		return fmt.Errorf("params_schema has the dialect %q; write %q", s.Schema, paramschema.Draft)
	case len(s.Properties) > maxParameters:
		return fmt.Errorf("params_schema has %d parameters; name at most %d", len(s.Properties), maxParameters)
	}
	cost := 0
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}$`).MatchString(name) {
			return fmt.Errorf("params_schema: %.80q is not a name; a parameter has 1 to 128 letters, digits and any of _ . / -", name)
		}
		if err := (&paramCheck{name: name, cost: &cost}).check(s.Properties[name]); err != nil {
			return fmt.Errorf("params_schema: %w", err)
		}
	}
	return compileParams(raw, s.Properties)
}

// compileParams compiles a schema and checks that each parameter accepts its default.
func compileParams(raw json.RawMessage, parameters map[string]map[string]json.RawMessage) error {
	schema, err := paramschema.Compile(raw)
	if err != nil {
		lines := strings.Split(err.Error(), "\n")
		return fmt.Errorf("params_schema is not a JSON Schema: %s", strings.TrimLeft(lines[len(lines)-1], " -"))
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		initial, set := parameters[name]["default"]
		if !set || schema.Properties[name] == nil {
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

package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// sampleRows is the number of rows from which a schema is inferred.
	sampleRows = 200
	// maxFields is the maximum number of members in an inferred schema. Rows with more members are probably maps, whose
	// keys are data.
	maxFields = 200
)

// declared checks the schema that was uploaded with a version.
func declared(raw []byte) (schema json.RawMessage, source string, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, SchemaNone, nil
	}
	if _, err := canon.JSON(raw); raw[0] != '{' || err != nil {
		return nil, "", fault.InvalidFields(fault.At(fault.TypeDictType, "Input should be a valid dictionary", "schema"))
	}
	return raw, SchemaDeclared, nil
}

// learn infers the schema of a jsonl version from its first rows, unless a schema was declared. If the rows do not form
// a table, the version has no schema; that is not an error.
func (s *Server) learn(ctx context.Context, d *Dataset, v *Version) error {
	if v.SchemaSource == SchemaDeclared || d.Format != DefaultFormat {
		return nil
	}
	rows, _, err := s.rows(ctx, d, v, v.Manifest[0], sampleRows)
	if err != nil {
		return err
	}
	schema, ok := infer(rows)
	if !ok {
		return nil
	}
	if v.Schema, err = json.Marshal(schema); err != nil {
		return fmt.Errorf("encode the schema of a dataset: %w", err)
	}
	v.SchemaSource, v.SampledRows = SchemaInferred, len(rows)
	return nil
}

// rowSchema is the JSON Schema of a row: names and types, never a value.
type rowSchema struct {
	Type       string              `json:"type"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

type property struct {
	Type []string `json:"type"`
}

// infer returns false unless all rows are objects with at most maxFields different members in total.
func infer(rows []row) (*rowSchema, bool) {
	seen, times := map[string]map[string]bool{}, map[string]int{}
	for _, r := range rows {
		var members map[string]json.RawMessage
		if r.wrong != "" || json.Unmarshal(r.value, &members) != nil || members == nil {
			return nil, false
		}
		for name, raw := range members {
			if seen[name] == nil {
				seen[name] = map[string]bool{}
			}
			seen[name][typeOf(raw)] = true
			times[name]++
		}
		if len(seen) > maxFields {
			return nil, false
		}
	}
	out := &rowSchema{Type: "object", Properties: map[string]property{}, Required: []string{}}
	for name, types := range seen {
		if types["integer"] && types["number"] {
			delete(types, "integer")
		}
		out.Properties[name] = property{Type: slices.Sorted(maps.Keys(types))}
		if times[name] == len(rows) {
			out.Required = append(out.Required, name)
		}
	}
	slices.Sort(out.Required)
	return out, len(rows) > 0
}

func typeOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	default:
		if slices.ContainsFunc(raw, func(b byte) bool { return b == '.' || b == 'e' || b == 'E' }) {
			return "number"
		}
		return "integer"
	}
}

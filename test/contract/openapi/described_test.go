package openapi_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/openapi"
)

// described is a part of the document that may refer to another part, which has the description.
type described struct {
	Name, Description string
	Ref               string `json:"$ref"`
}

// TestDocument_describesEverything checks that each operation, parameter, schema and property has a description.
func TestDocument_describesEverything(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Parameters map[string]described
			Schemas    map[string]struct {
				described

				Properties map[string]described
			}
		}
	}
	require.NoError(t, json.Unmarshal(openapi.Document, &doc))
	var missing []string
	check := func(d described, name string) {
		if d.Description == "" {
			missing = append(missing, name)
		}
	}
	operations := 0
	for path, item := range doc.Paths {
		for method, raw := range item {
			if !slices.Contains([]string{"get", "put", "post", "delete", "options", "patch"}, method) {
				continue
			}
			var op struct {
				described

				Parameters []described
			}
			require.NoError(t, json.Unmarshal(raw, &op))
			operations++
			check(op.described, method+" "+path)
			for _, p := range op.Parameters {
				if p.Ref == "" {
					check(p, method+" "+path+" "+p.Name)
				}
			}
		}
	}
	require.Greater(t, operations, 250)
	for name, d := range doc.Components.Parameters {
		check(d, name)
	}
	for name, schema := range doc.Components.Schemas {
		check(schema.described, name)
		for property, d := range schema.Properties {
			check(d, name+"."+property)
		}
	}
	require.Empty(t, missing, "descriptions are the comments of the protos, or in proto/openapi_overlay.yaml")
}

// Package paramschema compiles the JSON Schemas of hyperparameters, which recipes state and jobs are checked with.
package paramschema

import (
	"bytes"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Draft is the dialect of a schema that does not state one.
const Draft = "https://json-schema.org/draft/2020-12/schema"

// url identifies the schema in errors. It is absolute, because a relative URL would be resolved in the file system.
const url = "recipe:///params_schema"

// Compile compiles a schema. An empty schema accepts everything.
func Compile(raw []byte) (*jsonschema.Schema, error) {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // a $ref must not read files or the network
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	return c.Compile(url)
}

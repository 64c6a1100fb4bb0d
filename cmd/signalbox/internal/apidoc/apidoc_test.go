package apidoc

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const document = `{"components":{"schemas":{
"Job":{"type":"object","description":"Job is a training.","required":["id"],"properties":{
  "id":{"type":"string","description":"Its id."},
  "state":{"$ref":"#/components/schemas/State"},
  "spec":{"anyOf":[{"type":"null"},{"$ref":"#/components/schemas/Spec"}]},
  "priority":{"type":"integer","minimum":0,"maximum":9007199254740993,"default":5},
  "tags":{"type":"array","items":{"type":"string","maxLength":64},"maxItems":20},
  "hparams":{"type":"object","additionalProperties":{"$ref":"#/components/schemas/Value"}},
  "at":{"type":["string","null"],"format":"date-time","pattern":"^[0-9]"},"code":{"type":"string","pattern":"^[a-z]+$","minLength":1},
  "kind":{"const":"train"},"free":{},"gone":null,"labels":{"type":"object","additionalProperties":true}}},
"State":{"type":"string","enum":["queued","running"],"description":"State is where it is."},
"Spec":{"type":"object","properties":{"pools":{"type":"array","items":{"$ref":"#/components/schemas/Pool"}}}},
"Pool":{"allOf":[{"type":"object","properties":{"gpus":{"type":"integer","minimum":1}}}]},
"Value":{"type":"object","properties":{"v":{"type":"number","maximum":1.5}}},
"Jobs":{"type":"array","items":{"$ref":"#/components/schemas/Job"}},
"Loop":{"$ref":"#/components/schemas/Loop","enum":["a"]},"Ring":{"anyOf":[{"$ref":"#/components/schemas/Ring"}]},"Null":null,
"Holes":{"anyOf":[null],"properties":{"a":{"anyOf":[null,null]},"b":{"$ref":"#/components/schemas/Missing"},"c":{"$ref":"x"}}}}}}`

func parsed(t *testing.T) *Document {
	t.Helper()
	d, err := Parse([]byte(document))
	require.NoError(t, err)
	return d
}

func TestDocument_Explain(t *testing.T) {
	t.Parallel()
	d := parsed(t)
	got, err := d.Explain("job")
	require.NoError(t, err)
	require.Equal(t, Explanation{Path: "Job", Type: "object", Description: "Job is a training.", Fields: []Field{
		{Name: "at", Type: "string | null, such as 2026-01-31T10:00:00Z"},
		{Name: "code", Type: "string, at least 1 characters, that matches ^[a-z]+$"},
		{Name: "free", Type: "any"},
		{Name: "hparams", Type: "{text: Value}"},
		{Name: "id", Type: "string", Required: true, Description: "Its id."},
		{Name: "kind", Type: "train"},
		{Name: "labels", Type: "object"},
		{Name: "priority", Type: "integer, 0 to 9007199254740993, default 5"},
		{Name: "spec", Type: "null | Spec"},
		{Name: "state", Type: "queued | running", Description: "State is where it is."},
		{Name: "tags", Type: "[string, at most 64 characters], at most 20 elements"},
	}}, got)
	for path, want := range map[string]string{
		"JOB": "object", "Jobs": "[Job]", "jobs.id": "string", "states": "queued | running", "Job.spec.pools": "[Pool]", "Job.spec.pools.gpus": "integer, at least 1",
		"Job.hparams.v": "number, at most 1.5", "Loop": "Loop", "Ring": "Ring", "Holes": "any", "Holes.a": "any | any", "Holes.b": "Missing",
	} {
		got, err := d.Explain(path)
		require.NoError(t, err, path)
		require.Equal(t, want, got.Type, path)
		require.NotNil(t, got.Fields)
	}
}

func TestDocument_Explain_unknown(t *testing.T) {
	t.Parallel()
	d := parsed(t)
	for path, want := range map[string]string{
		"": `no object ""`, "Jobb": `no object "Jobb"`, "Null": `no object "Null"`, "Job.idd": `Job has no member "idd"; it has at, code,`, "Job.gone": "has no member",
		"Job.id.x": `Job.id has no member "x"; it has none at all`, "Job.": `Job has no member ""`, "Ring.a": "has no member", "Loop.a": "has no member",
	} {
		_, err := d.Explain(path)
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown, path)
		require.ErrorContains(t, err, want, path)
	}
	_, err := Parse([]byte("<html>"))
	require.ErrorContains(t, err, "decode the OpenAPI document")
	empty, err := Parse([]byte("{}"))
	require.NoError(t, err)
	require.Empty(t, empty.Kinds())
}

// Every object and member of the document of this version can be explained.
func TestDocument_Explain_everything(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../../gen/openapi/openapi.json")
	require.NoError(t, err)
	d, err := Parse(raw)
	require.NoError(t, err)
	require.NotEmpty(t, d.Kinds())
	for _, kind := range d.Kinds() {
		got, err := d.Explain(kind)
		require.NoError(t, err)
		require.NotEmpty(t, got.Type)
		for _, f := range got.Fields {
			require.NotEmpty(t, f.Type, "%s.%s", kind, f.Name)
			_, err := d.Explain(kind + "." + f.Name)
			require.NoError(t, err)
		}
	}
}

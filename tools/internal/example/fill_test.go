package example

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func node(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&out))
	return out
}

func TestFill(t *testing.T) {
	t.Parallel()
	d := &document{
		root: node(t, `{"components": {"schemas": {
		"Tree": {"type": "object", "properties": {"child": {"$ref": "#/components/schemas/Tree"}}, "required": ["child"]},
		"Known": {"type": "object"}, "State": {"type": "string", "enum": ["queued", "running"]}}}}`),
		models: map[string]map[string]any{"Known": {"from": "a golden"}},
	}
	for schema, want := range map[string]string{
		`{"$ref": "#/components/schemas/Known"}`:                                                   `{"from": "a golden"}`,
		`{"$ref": "#/components/schemas/State"}`:                                                   `"queued"`,
		`{"anyOf": [{"$ref": "#/components/schemas/State"}, {"type": "null"}]}`:                    `null`,
		`{"type": ["string", "null"]}`:                                                             `null`,
		`{"type": "array", "items": {"type": "integer", "minimum": 5}}`:                            `[5]`,
		`{"type": "object", "properties": {"a": {"type": "boolean"}, "b": {}}, "required": ["a"]}`: `{"a": true}`,
		`{"const": "ok"}`: `"ok"`,
		`{}`:              `{}`,
		`{"type": "string", "examples": ["models"]}`:                               `"models"`,
		`{"type": "string", "description": "Id of the job, ` + "`job_...`" + `."}`: `"job_` + ulid + `"`,
		`{"type": "string", "format": "date-time", "pattern": "^x$"}`:              `"2026-11-21T03:00:00.123456+00:00"`,
		`{"type": "string", "format": "email"}`:                                    `"ada@example.org"`,
		`{"type": "string", "format": "uri"}`:                                      `"` + server + `"`,
		`{"type": "string", "pattern": "^[a-z]{3}-(x|y)$"}`:                        `"aaa-x"`,
	} {
		got, err := json.Marshal(d.fill(node(t, schema), "", 0))
		require.NoError(t, err)
		require.JSONEq(t, want, string(got), schema)
	}
	nested, err := json.Marshal(d.fill(node(t, `{"$ref": "#/components/schemas/Tree"}`), "", 0))
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(nested), "child"), deepest+1, "a schema that contains itself must end")
}

func TestScalar_names(t *testing.T) {
	t.Parallel()
	d := &document{}
	number, short := node(t, `{"type": "integer", "maximum": 4096}`), node(t, `{"type": "string", "maxLength": 4}`)
	require.Equal(t, json.Number("4096"), d.fill(number, "size_bytes", 0))
	require.Equal(t, json.Number("8"), d.fill(number, "gpus", 0))
	require.Equal(t, json.Number("0"), d.fill(number, "gpus_queued", 0))
	require.Equal(t, json.Number("60"), d.fill(number, "ttl_s", 0))
	require.Equal(t, json.Number("200"), d.fill(number, "status", 0))
	require.Equal(t, "last", d.fill(short, "last_word", 0))
	require.Equal(t, "ada", d.fill(short, "owner", 0))
	require.Equal(t, "sha256:"+digits, d.fill(node(t, `{"type": "string"}`), "catalog_digest", 0))
	require.Equal(t, moment("locked_at"), d.fill(node(t, `{"type": "string"}`), "locked_at", 0))
	require.Equal(t, "Maintenance on Sunday", d.fill(nil, "value", 0))
}

func TestMoment_isInOrder(t *testing.T) {
	t.Parallel()
	order := []string{"created_at", "running_at", "ended_at", "expires_at"}
	for i := range order[1:] {
		require.Less(t, moment(order[i]), moment(order[i+1]))
	}
}

func TestSample_matches(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		`[a-z]+[0-9]{2}`, `a|b`, `x?y*z`, `[^"]+`, `[B-DF]+`, `https?://[^/]+/device\?user_code=[A-Z-]+`, `shr_[0-9A-Za-z]{49}`, `eyJ[A-Za-z0-9_.-]+`,
		`.*/inference/dep_[0-9a-z]{26}/v1`, `given-[0-9a-f]{16}`, `[A-Za-z0-9_-]{24}`, `id: 1\ndata: \{"ts":"[^"]+"\}`, `3[.]1[.].*`, `dtk_.{4}`,
		`[B-DF-HJ-NP-TV-Z]{4}-[B-DF-HJ-NP-TV-Z]{4}`, `(?:one|two) [0-9]+`,
	} {
		require.Regexp(t, regexp.MustCompile(`^(?s:`+expression+`)$`), sample(expression))
	}
	require.Empty(t, sample(`(`))
}

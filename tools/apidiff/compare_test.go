package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// known is the OpenAPI document that the tests change.
const known = `{
  "paths": {
    "/api/jobs": {
      "post": {
        "security": [{"accessToken": []}, {"other": []}], "x-service-role": "operator",
        "parameters": [{"name": "dry", "in": "query", "required": false, "schema": {"type": "boolean"}}, {"$ref": "#/components/parameters/Key"}],
        "requestBody": {"required": false, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ask"}}}},
        "responses": {
          "201": {"headers": {"Location": {}}, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Job"}}}},
          "404": {"$ref": "#/components/responses/Error404"}
        }
      },
      "get": {
        "security": [], "responses": {"200": {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Job"}}}}}}
      }
    },
    "/api/jobs/{id}/stream": {
      "get": {
        "security": [], "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
        "responses": {"200": {"content": {"text/event-stream": {"schema": {"type": "string"}, "x-service-events": {"job": {"$ref": "#/components/schemas/Job"}}}}}}
      }
    }
  },
  "components": {
    "parameters": {"Key": {"name": "Key", "in": "header", "schema": {"type": "string", "maxLength": 9}}},
    "responses": {"Error404": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}},
    "schemas": {
      "Error": {"type": "object", "properties": {"detail": {"type": "string"}}, "required": ["detail"]},
      "Job": {
        "type": "object",
        "properties": {
          "id": {"type": "string"}, "note": {"type": ["string", "null"]}, "state": {"type": "string", "enum": ["queued", "done"]},
          "hint": {"type": "string"}, "at": {"type": "string", "format": "date-time"}, "parent": {"anyOf": [{"$ref": "#/components/schemas/Job"}, {"type": "null"}]},
          "rate": {"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN"]}]}, "labels": {"type": "object", "additionalProperties": {"type": "string"}}
        },
        "required": ["id", "note", "state", "at", "parent", "rate", "labels"]
      },
      "Ask": {
        "type": "object",
        "properties": {
          "name": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^a"}, "kind": {"type": "string", "enum": ["a", "b"]},
          "size": {"type": ["integer", "null"], "minimum": 1, "maximum": 9}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
          "any": {}, "part": {"allOf": [{"$ref": "#/components/schemas/Part"}], "description": "d"}
        },
        "required": ["name"], "additionalProperties": false
      },
      "Part": {"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": false}
    }
  }
}`

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var doc map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &doc), text)
	return doc
}

// changed applies text replacements to the document and compares the result with the original.
func changed(t *testing.T, pairs ...string) []string {
	t.Helper()
	text := known
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, text, pairs[i])
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return compare(parse(t, known), parse(t, text))
}

func TestCompare_unchanged(t *testing.T) {
	t.Parallel()
	require.Empty(t, changed(t))
}

func TestCompare_breakingChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"removed optional property of a response": {`"hint": {"type": "string"}, `, ``, "POST /api/jobs 201 body: property hint is gone"},
		"removed required property of a response": {`"id": {"type": "string"}, `, ``, "GET /api/jobs 200 body[]: property id is gone"},
		"property that becomes optional":          {`["id", "note", `, `["id", `, "property note may be left out"},
		"response value that becomes nullable":    {`"id": {"type": "string"}`, `"id": {"type": ["string", "null"]}`, "201 body.id: null was not possible before"},
		"response value with a different type":    {`"id": {"type": "string"}`, `"id": {"type": "integer"}`, "201 body.id: is integer, it was string"},
		"response value with a different format":  {`{"type": "string", "format": "date-time"}`, `{"type": "string"}`, "body.at: has format <nil>"},
		"map with different values":               {`"additionalProperties": {"type": "string"}}`, `"additionalProperties": {"type": "integer"}}`, "body.labels.*: is integer"},
		"additional form of a response value":     {`{"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN"]}]}`, `{"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}]}`, "body.rate: boolean was not possible before"},
		"a removed route":                         {`"/api/jobs/{id}/stream"`, `"/api/jobs/{id}/events"`, "GET /api/jobs/{id}/stream: is gone"},
		"a removed method": {`"get": {
        "security": [], "responses"`, `"put": {
        "security": [], "responses"`, "GET /api/jobs: is gone"},
		"a removed event":                   {`"job": {"$ref"`, `"work": {"$ref"`, "event job is gone"},
		"a removed status":                  {`"201":`, `"200":`, "POST /api/jobs: no longer returns 201"},
		"a removed header":                  {`"headers": {"Location": {}}, `, ``, "header Location is gone"},
		"another content type":              {`"201": {"headers": {"Location": {}}, "content": {"application/json"`, `"201": {"headers": {"Location": {}}, "content": {"text/plain"`, "201: is no longer application/json"},
		"failure without detail":            {`"properties": {"detail": {"type": "string"}}, "required": ["detail"]`, `"properties": {}`, "404 body: property detail is gone"},
		"a narrowed enum of a request":      {`["a", "b"]`, `["a"]`, "POST /api/jobs body.kind: no longer accepts b"},
		"a new enum of a request":           {`"tags": {"type": "array", "items": {"type": "string"}`, `"tags": {"type": "array", "items": {"type": "string", "enum": ["x"]}`, "body.tags[]: accepts only [x]"},
		"a new required field of a request": {`"required": ["name"]`, `"required": ["name", "kind"]`, "POST /api/jobs body: property kind is required"},
		"a removed field of a request":      {`"any": {}, `, ``, "POST /api/jobs body: property any is gone"},
		"higher minimum length":             {`"minLength": 1`, `"minLength": 2`, "body.name: minLength is 2, it was 1"},
		"lower maximum length":              {`"maxLength": 8`, `"maxLength": 7`, "body.name: maxLength is 7, it was 8"},
		"a new bound":                       {`"any": {}`, `"any": {"type": "string"}`, "body.any: is string, it was <nil>"},
		"a tighter number":                  {`"maximum": 9`, `"maximum": 8`, "body.size: integer is no longer accepted"},
		"fewer items":                       {`"maxItems": 3`, `"maxItems": 2`, "body.tags: maxItems is 2, it was 3"},
		"another pattern":                   {`"pattern": "^a"`, `"pattern": "^b"`, "body.name: has a different pattern"},
		"null no longer accepted":           {`"size": {"type": ["integer", "null"]`, `"size": {"type": ["integer"]`, "body.size: null is no longer accepted"},
		"a field of a part":                 {`"properties": {"x": {"type": "number"}}`, `"properties": {"x": {"type": "integer"}}`, "body.part.x: is integer, it was number"},
		"body becomes required":             {`"requestBody": {"required": false`, `"requestBody": {"required": true`, "POST /api/jobs: needs a body"},
		"removed parameter":                 {`"name": "dry"`, `"name": "try"`, "parameter query dry is gone"},
		"parameter becomes required":        {`"in": "query", "required": false`, `"in": "query", "required": true`, "parameter query dry is required"},
		"tighter shared parameter":          {`"maxLength": 9`, `"maxLength": 3`, "parameter header Key: maxLength is 3"},
		"removed credential":                {`[{"accessToken": []}, {"other": []}]`, `[{"accessToken": []}]`, "no longer accepts [other]"},
		"credential becomes required": {`"get": {
        "security": [], "responses"`, `"get": {
        "security": [{"accessToken": []}], "responses"`, "GET /api/jobs: needs a credential"},
		"higher role": {`"x-service-role": "operator"`, `"x-service-role": "admin"`, "needs the admin role"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, strings.Join(changed(t, c.from, c.to), "\n"), c.want)
		})
	}
}

func TestCompare_compatibleChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to string }{
		"a route":                           {`"/api/jobs":`, `"/api/new": {"get": {"responses": {"200": {}}}}, "/api/jobs":`},
		"a method":                          {`"/api/jobs": {`, `"/api/jobs": {"put": {"responses": {"200": {}}},`},
		"property of a response":            {`"id": {"type": "string"}`, `"id": {"type": "string"}, "more": {"type": "integer"}`},
		"required property of a response":   {`["id", "note"`, `["hint", "id", "note"`},
		"enum value of a response":          {`["queued", "done"]`, `["queued", "done", "paused"]`},
		"an optional field of a request":    {`"any": {}`, `"any": {}, "more": {"type": "string"}`},
		"an optional parameter":             {`"parameters": [{"name": "dry"`, `"parameters": [{"name": "wet", "in": "query", "schema": {"type": "string"}}, {"name": "dry"`},
		"enum value of a request":           {`["a", "b"]`, `["a", "b", "c"]`},
		"a wider bound":                     {`"maxLength": 8`, `"maxLength": 80`},
		"field becomes optional":            {`"required": ["name"]`, `"required": []`},
		"a failure":                         {`"404":`, `"409": {"$ref": "#/components/responses/Error404"}, "404":`},
		"removed failure":                   {`"404": {"$ref"`, `"409": {"$ref"`},
		"a further status":                  {`"201":`, `"200": {}, "201":`},
		"an event":                          {`"x-service-events": {`, `"x-service-events": {"eof": {"type": "object"}, `},
		"a description":                     {`"description": "d"`, `"description": "another"`},
		"renamed path variable":             {`"name": "id", "in": "path"`, `"name": "job_id", "in": "path"`},
		"lower minimum length":              {`"name": {"type": "string", "minLength": 1`, `"name": {"type": "string", "minLength": 0`},
		"response value no longer nullable": {`"note": {"type": ["string", "null"]}`, `"note": {"type": "string"}`},
		"parent no longer nullable":         {`"parent": {"anyOf": [{"$ref": "#/components/schemas/Job"}, {"type": "null"}]}`, `"parent": {"$ref": "#/components/schemas/Job"}`},
		"additional credential":             {`[{"accessToken": []}, {"other": []}]`, `[{"accessToken": []}, {"other": []}, {"third": []}]`},
		"lower role":                        {`"x-service-role": "operator"`, `"x-service-role": "none"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, changed(t, c.from, c.to))
		})
	}
}

func TestRun_failsOnBreakingChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base, head := filepath.Join(dir, "base.json"), filepath.Join(dir, "head.json")
	require.NoError(t, os.WriteFile(base, []byte(known), 0o600))
	require.NoError(t, os.WriteFile(head, []byte(strings.Replace(known, `"hint": {"type": "string"}, `, "", 1)), 0o600))
	var out strings.Builder
	require.ErrorIs(t, run(base, head, &out), errBroken)
	require.Contains(t, out.String(), "POST /api/jobs 201 body: property hint is gone\n")
	out.Reset()
	require.NoError(t, run(head, base, &out), "the reverse change is an addition")
	require.NoError(t, run(base, base, &out))
	require.Empty(t, out.String())
	require.ErrorContains(t, run(base, filepath.Join(dir, "none"), &out), "read document")
	require.NoError(t, os.WriteFile(head, []byte("{"), 0o600))
	require.ErrorContains(t, run(base, head, &out), "read ")
}

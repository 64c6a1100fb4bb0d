package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// known is the OpenAPI document that the tests change.
const known = `{
  "openapi": "3.1.1", "info": {"title": "known", "version": "1.0.0"},
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
          "rate": {"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN"]}]}, "labels": {"type": "object", "additionalProperties": {"type": "string"}},
          "code": {"type": "string", "maxLength": 4, "pattern": "^x"}
        },
        "required": ["id", "note", "state", "at", "parent", "rate", "labels"]
      },
      "Ask": {
        "type": "object",
        "properties": {
          "name": {"type": "string", "minLength": 1, "maxLength": 8, "pattern": "^a"}, "kind": {"type": "string", "enum": ["a", "b"]},
          "size": {"type": ["integer", "null"], "minimum": 1, "maximum": 9}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
          "any": {}, "open": {"type": "object"}, "part": {"allOf": [{"$ref": "#/components/schemas/Part"}], "description": "d"}
        },
        "required": ["name"], "additionalProperties": false
      },
      "Part": {"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": false}
    }
  }
}`

// changed applies text replacements to the document and compares the result with the original.
func changed(t *testing.T, pairs ...string) []string {
	t.Helper()
	text := known
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, text, pairs[i])
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return compared(t, known, text)
}

func compared(t *testing.T, before, after string) []string {
	t.Helper()
	base, err := parse([]byte(before))
	require.NoError(t, err)
	head, err := parse([]byte(after))
	require.NoError(t, err, after)
	found, err := compare(base, head)
	require.NoError(t, err)
	return found
}

func TestCompare_unchanged(t *testing.T) {
	t.Parallel()
	require.Empty(t, changed(t))
}

func TestCompare_breakingChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"removed optional property of a response": {`"hint": {"type": "string"}, `, ``, "POST /api/jobs: removed the optional property `hint` from the response with the `201` status [response-optional-property-removed]"},
		"removed required property of a response": {`"id": {"type": "string"}, `, ``, "[response-required-property-removed]"},
		"property that becomes optional":          {`["id", "note", `, `["id", `, "[response-property-became-optional]"},
		"response value that becomes nullable":    {`"id": {"type": "string"}`, `"id": {"type": ["string", "null"]}`, "[response-property-became-nullable]"},
		"response value with a different type":    {`"id": {"type": "string"}`, `"id": {"type": "integer"}`, "[response-property-type-changed]"},
		"response value with a different format":  {`{"type": "string", "format": "date-time"}`, `{"type": "string"}`, "[response-property-type-changed]"},
		"map with different values":               {`"additionalProperties": {"type": "string"}}`, `"additionalProperties": {"type": "integer"}}`, "[response-property-type-changed]"},
		"additional type of a response value":     {`{"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN"]}]}`, `{"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}]}`, "[response-property-type-generalized]"},
		"a removed route":                         {`"/api/jobs/{id}/stream"`, `"/api/jobs/{id}/events"`, "GET /api/jobs/{id}/stream: api path removed without deprecation [api-path-removed-without-deprecation]"},
		"a removed method": {`"get": {
        "security": [], "responses"`, `"put": {
        "security": [], "responses"`, "[api-removed-without-deprecation]"},
		"a removed event":                   {`"job": {"$ref"`, `"work": {"$ref"`, "removed the media type `event/job+json`"},
		"a removed status":                  {`"201":`, `"200":`, "[response-success-status-removed]"},
		"a removed header":                  {`"headers": {"Location": {}}, `, ``, "[optional-response-header-removed]"},
		"another content type":              {`"201": {"headers": {"Location": {}}, "content": {"application/json"`, `"201": {"headers": {"Location": {}}, "content": {"text/plain"`, "[response-media-type-removed]"},
		"failure without detail":            {`"properties": {"detail": {"type": "string"}}, "required": ["detail"]`, `"properties": {}`, "[response-required-property-removed]"},
		"a narrowed enum of a request":      {`["a", "b"]`, `["a"]`, "[request-property-enum-value-removed]"},
		"a new enum of a request":           {`"tags": {"type": "array", "items": {"type": "string"}`, `"tags": {"type": "array", "items": {"type": "string", "enum": ["x"]}`, "[request-property-became-enum]"},
		"a new required field of a request": {`"required": ["name"]`, `"required": ["name", "kind"]`, "[request-property-became-required]"},
		"a removed field of a request":      {`"any": {}, `, ``, "[request-property-removed]"},
		"higher minimum length":             {`"minLength": 1`, `"minLength": 2`, "[request-property-min-length-increased]"},
		"lower maximum length":              {`"maxLength": 8`, `"maxLength": 7`, "[request-property-max-length-decreased]"},
		"a new bound":                       {`"any": {}`, `"any": {"type": "string"}`, "[request-property-type-changed]"},
		"a tighter number":                  {`"maximum": 9`, `"maximum": 8`, "[request-property-max-decreased]"},
		"fewer items":                       {`"maxItems": 3`, `"maxItems": 2`, "[request-property-max-items-decreased]"},
		"another pattern":                   {`"pattern": "^a"`, `"pattern": "^b"`, "[request-property-pattern-changed]"},
		"null no longer accepted":           {`"size": {"type": ["integer", "null"]`, `"size": {"type": ["integer"]`, "[request-property-became-not-nullable]"},
		"a field of a part":                 {`"properties": {"x": {"type": "number"}}`, `"properties": {"x": {"type": "integer"}}`, "[request-property-type-changed]"},
		"body becomes required":             {`"requestBody": {"required": false`, `"requestBody": {"required": true`, "[request-body-became-required]"},
		"removed parameter":                 {`"name": "dry"`, `"name": "try"`, "[request-parameter-removed]"},
		"parameter becomes required":        {`"in": "query", "required": false`, `"in": "query", "required": true`, "[request-parameter-became-required]"},
		"tighter shared parameter":          {`"maxLength": 9`, `"maxLength": 3`, "[request-parameter-max-length-decreased]"},
		"removed credential":                {`[{"accessToken": []}, {"other": []}]`, `[{"accessToken": []}]`, "[api-security-removed]"},
		"credential becomes required": {`"get": {
        "security": [], "responses"`, `"get": {
        "security": [{"accessToken": []}], "responses"`, "[api-security-anonymous-access-removed]"},
		"another type in an event":       {`"id": {"type": "string"}`, `"id": {"type": "integer"}`, "GET /api/jobs/{id}/stream: the `id` response's property `type` changed"},
		"other properties refused":       {`"open": {"type": "object"`, `"open": {"type": "object", "additionalProperties": false`, "[request-property-unevaluated-properties-added]"},
		"one value of a parameter":       {`"maxLength": 9`, `"maxLength": 9, "const": "k"`, "[request-parameter-became-enum]"},
		"array of anything":              {`"type": "array", "items": {"$ref": "#/components/schemas/Job"}`, `"type": "array"`, "the `items/` response's property `type` changed from `object` to `any`"},
		"any value instead of two forms": {`"parent": {"anyOf": [{"$ref": "#/components/schemas/Job"}, {"type": "null"}]}`, `"parent": {}`, "changed from `object, null` to `any`"},
		"higher role":                    {`"x-service-role": "operator"`, `"x-service-role": "admin"`, "needs the admin role"},
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
		"a route":                         {`"/api/jobs":`, `"/api/new": {"get": {"responses": {"200": {}}}}, "/api/jobs":`},
		"a method":                        {`"/api/jobs": {`, `"/api/jobs": {"put": {"responses": {"200": {}}},`},
		"property of a response":          {`"id": {"type": "string"}`, `"id": {"type": "string"}, "more": {"type": "integer"}`},
		"required property of a response": {`["id", "note"`, `["hint", "id", "note"`},
		"enum value of a response":        {`["queued", "done"]`, `["queued", "done", "paused"]`},
		"an optional field of a request":  {`"any": {}`, `"any": {}, "more": {"type": "string"}`},
		"an optional parameter":           {`"parameters": [{"name": "dry"`, `"parameters": [{"name": "wet", "in": "query", "schema": {"type": "string"}}, {"name": "dry"`},
		"enum value of a request":         {`["a", "b"]`, `["a", "b", "c"]`},
		"a wider bound":                   {`"maxLength": 8`, `"maxLength": 80`},
		"field becomes optional":          {`"required": ["name"]`, `"required": []`},
		"a failure":                       {`"404":`, `"409": {"$ref": "#/components/responses/Error404"}, "404":`},
		"removed failure":                 {`"404": {"$ref"`, `"409": {"$ref"`},
		"a further status":                {`"201":`, `"200": {}, "201":`},
		"an event":                        {`"x-service-events": {`, `"x-service-events": {"eof": {"type": "object"}, `},
		"a description":                   {`"description": "d"`, `"description": "another"`},
		"renamed path variable": {`"/api/jobs/{id}/stream": {
      "get": {
        "security": [], "parameters": [{"name": "id"`, `"/api/jobs/{job_id}/stream": {
      "get": {
        "security": [], "parameters": [{"name": "job_id"`},
		"lower minimum length":              {`"name": {"type": "string", "minLength": 1`, `"name": {"type": "string", "minLength": 0`},
		"response value no longer nullable": {`"note": {"type": ["string", "null"]}`, `"note": {"type": "string"}`},
		"parent no longer nullable":         {`"parent": {"anyOf": [{"$ref": "#/components/schemas/Job"}, {"type": "null"}]}`, `"parent": {"$ref": "#/components/schemas/Job"}`},
		"additional credential":             {`[{"accessToken": []}, {"other": []}]`, `[{"accessToken": []}, {"other": []}, {"third": []}]`},
		"a wider bound of a response":       {`"maxLength": 4`, `"maxLength": 40`},
		"another pattern of a response":     {`"pattern": "^x"`, `"pattern": "^y"`},
		"response without a list of values": {`"state": {"type": "string", "enum": ["queued", "done"]}`, `"state": {"type": "string"}`},
		"a deprecation":                     {`"post": {`, `"post": {"deprecated": true,`},
		"lower role":                        {`"x-service-role": "operator"`, `"x-service-role": "none"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, changed(t, c.from, c.to))
		})
	}
}

func TestCompare_removalAfterSunsetBreaksClients(t *testing.T) {
	t.Parallel()
	deprecated := strings.Replace(known, `"post": {`, `"post": {"deprecated": true, "x-sunset": "2020-01-01",`, 1)
	removed := strings.Replace(known, `"post": {`, `"x-post": {`, 1)
	require.Contains(t, strings.Join(compared(t, deprecated, removed), "\n"), "POST /api/jobs: ")
}

func TestRun_failsOnBreakingChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base, head := filepath.Join(dir, "base.json"), filepath.Join(dir, "head.json")
	require.NoError(t, os.WriteFile(base, []byte(known), 0o600))
	require.NoError(t, os.WriteFile(head, []byte(strings.Replace(known, `"hint": {"type": "string"}, `, "", 1)), 0o600))
	var out strings.Builder
	require.ErrorIs(t, run(base, head, &out), errBroken)
	require.Contains(t, out.String(), "[response-optional-property-removed]\n")
	out.Reset()
	require.NoError(t, run(head, base, &out), "the reverse change is an addition")
	require.NoError(t, run(base, base, &out))
	require.Empty(t, out.String())
	require.ErrorContains(t, run(base, filepath.Join(dir, "none"), &out), "read document")
	require.NoError(t, os.WriteFile(head, []byte("{"), 0o600))
	require.ErrorContains(t, run(base, head, &out), "read ")
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	list = `
handlers:
  - {handler: health, credential: none, in_maintenance: true, methods: [GET, HEAD], paths: [/healthz]}
  - {handler: ingest, credential: ingest, methods: [POST], paths: [/api/ingest/logs]}
  - {handler: inference, credential: deployment, methods: ["*"], paths: ["/inference/{deployment_id}/v1/{rest...}"]}
streams:
  - {rpc: signalbox.jobs.v1.JobService.WatchJob, paths: ["/api/jobs/{id}/stream"]}
`
	over = `
document: {openapi: 3.1.1, info: {title: T, version: "1"}}
areas:
  - {name: health, description: Up., paths: [/healthz]}
  - {name: projects}
  - {name: jobs, paths: ["/api/projects/{project}/jobs", /api/jobs]}
operations:
  GET /healthz: {operationId: getHealth, summary: Up, responses: {"200": {description: Yes.}}, fails: [503]}
  POST /api/ingest/logs: {operationId: reportLogs, responses: {"200": {description: Stored.}}, fails: [401]}
  "* /inference/{deployment_id}/v1/{rest...}": {operationId: inference, requestBody: {content: {"*/*": {}}}, responses: {default: {description: The engine's.}}}
patches:
  DELETE /api/jobs/{job_id}: {summary: Away, x-more: true, tags: [more], responses: {"403": null, "404": {description: Not here.}}}
components:
  schemas:
    Error: {type: object}
    HTTPValidationError: {type: object}
    Job: {properties: {spec: {type: object}}}
`
)

// image returns a buf image of a small product.
func image(t *testing.T) []byte {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	for _, fd := range []protoreflect.FileDescriptor{
		descriptorpb.File_google_protobuf_descriptor_proto, annotations.File_google_api_http_proto,
		annotations.File_google_api_annotations_proto, emptypb.File_google_protobuf_empty_proto, timestamppb.File_google_protobuf_timestamp_proto,
	} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(fd))
	}
	for _, name := range []string{"options", "validate", "jobs"} {
		files, err := protodesc.NewFiles(set)
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join("testdata", name+".txtpb"))
		require.NoError(t, err)
		file := &descriptorpb.FileDescriptorProto{}
		require.NoError(t, prototext.UnmarshalOptions{Resolver: dynamicpb.NewTypes(files)}.Unmarshal(text, file), name)
		set.File = append(set.File, file)
	}
	data, err := proto.Marshal(set)
	require.NoError(t, err)
	return data
}

// document returns the generated document of the small product.
func document(t *testing.T) map[string]any {
	t.Helper()
	text, err := generate(image(t), []byte(list), []byte(over), nil)
	require.NoError(t, err)
	again, err := generate(image(t), []byte(list), []byte(over), nil)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again), "the same input must give the same bytes")
	var out map[string]any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

// at returns the part of a document at a path of names.
func at(t *testing.T, doc any, names ...string) any {
	t.Helper()
	for _, name := range names {
		object, ok := doc.(map[string]any)
		require.True(t, ok, "%s of %v", name, names)
		require.Contains(t, object, name, "%v", names)
		doc = object[name]
	}
	return doc
}

func requireJSON(t *testing.T, want string, got any) {
	t.Helper()
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, want, string(text))
}

const pattern = `"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}\\+00:00$"`

func TestGenerate_responseProperties(t *testing.T) {
	t.Parallel()
	job := at(t, document(t), "components", "schemas", "Job")
	for name, want := range map[string]string{
		"id":         `{"type": "string"}`,
		"state":      `{"type": "string", "enum": ["queued", "done"]}`,
		"message":    `{"type": ["string", "null"]}`,
		"steps":      `{"type": "integer", "format": "int64"}`,
		"rate":       `{"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]}`,
		"took":       `{"type": "number"}`,
		"spec":       `{"type": "object"}`,
		"blob":       `{"type": "string", "contentEncoding": "base64"}`,
		"parts":      `{"type": "array", "items": {"$ref": "#/components/schemas/Part"}}`,
		"first":      `{"anyOf": [{"$ref": "#/components/schemas/Part"}, {"type": "null"}], "description": "The first part."}`,
		"ended_at":   `{"type": ["string", "null"], "format": "date-time", "pattern": ` + pattern + `}`,
		"created_at": `{"type": "string", "format": "date-time", "pattern": ` + pattern + `}`,
		"labels":     `{"type": "object", "additionalProperties": {"type": "string"}}`,
		"pair":       `{"anyOf": [{"$ref": "#/components/schemas/Pair"}, {"type": "null"}]}`,
	} {
		requireJSON(t, want, at(t, job, "properties", name))
	}
	requireJSON(t, `["id","state","message","steps","rate","took","spec","blob","parts","first","ended_at","created_at","labels","pair"]`, at(t, job, "required"))
	require.NotContains(t, job, "additionalProperties", "responses must allow new properties")
	require.Equal(t, "Job is one.", at(t, job, "description"))
}

func TestGenerate_requestBounds(t *testing.T) {
	t.Parallel()
	schema := at(t, document(t), "components", "schemas", "MakeRequest")
	for name, want := range map[string]string{
		"name":  `{"type": "string", "minLength": 1, "maxLength": 8}`,
		"key":   `{"type": "string", "pattern": "^[a-z]+$"}`,
		"kind":  `{"type": "string", "enum": ["", "a"]}`,
		"state": `{"type": "string", "enum": ["queued"]}`,
		"nodes": `{"type": ["integer", "null"], "format": "int32", "exclusiveMinimum": 0, "maximum": 9}`,
		"pools": `{"type": "array", "items": {"type": "string", "maxLength": 4}, "minItems": 1, "maxItems": 3}`,
		"part":  `{"$ref": "#/components/schemas/PartInput"}`,
		"pair":  `{"anyOf": [{"$ref": "#/components/schemas/Pair"}, {"type": "null"}]}`,
		"email": `{"type": ["string", "null"], "format": "email", "maxLength": 64}`,
		"mail":  `{"type": "string", "maxLength": 64, "anyOf": [{"const": ""}, {"format": "email"}]}`,
		"note":  `{"type": "string", "maxLength": 64}`,
		"env":   `{"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"minLength": 1}, "maxProperties": 2}`,
		"size":  `{"type": "integer", "format": "int32", "minimum": 5, "maximum": 2147483647}`,
	} {
		requireJSON(t, want, at(t, schema, "properties", name))
	}
	requireJSON(t, `["name", "key", "state", "pools", "part"]`, at(t, schema, "required"))
	requireJSON(t, `false`, at(t, schema, "additionalProperties"))
	require.NotContains(t, at(t, schema, "properties"), "project", "path variables must not be in the body")
}

func TestGenerate_messageWithDifferentDirections(t *testing.T) {
	t.Parallel()
	schemas := at(t, document(t), "components", "schemas")
	requireJSON(t, `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`, at(t, schemas, "Part"))
	requireJSON(t, `{"type":"object","properties":{"name":{"type":"string"}},"additionalProperties":false}`, at(t, schemas, "PartInput"))
	require.NotContains(t, schemas, "PairInput")
	requireJSON(t, `{"type":"object","properties":{"left":{"type":"string","minLength":1,"maxLength":256},
		"right":{"type":"integer","format":"int32","minimum":1,"maximum":2147483647}},
		"required":["left","right"],"additionalProperties":false}`, at(t, schemas, "Pair"))
	require.NotContains(t, schemas, "GetRequest", "a request without a body must have no schema")
	require.NotContains(t, schemas, "ListResponse", "lists must be bare arrays")
}

func statuses(t *testing.T, op any) []string {
	t.Helper()
	var out []string
	for status := range at(t, op, "responses").(map[string]any) {
		out = append(out, status)
	}
	return out
}

func TestGenerate_statuses(t *testing.T) {
	t.Parallel()
	paths := at(t, document(t), "paths")
	for target, want := range map[string][]string{
		"put /api/projects/{project}/jobs": {"200", "201", "400", "401", "403", "404", "409", "413", "422", "503"},
		"post /api/jobs":                   {"201", "401", "403", "413", "422", "503"},
		"get /api/jobs/{job_id}":           {"200", "400", "401", "422", "503"},
		"get /api/jobs":                    {"200", "422", "503"},
		"delete /api/jobs/{job_id}":        {"204", "400", "401", "404", "422", "503"},
		"get /api/jobs/{id}/stream":        {"200", "400", "401", "403", "422", "503"},
		"get /healthz":                     {"200", "503"},
		"head /healthz":                    {"200", "503"},
		"post /api/ingest/logs":            {"200", "401", "503"},
	} {
		method, path, _ := strings.Cut(target, " ")
		require.ElementsMatch(t, want, statuses(t, at(t, paths, path, method)), target)
	}
	requireJSON(t, `{"$ref":"#/components/responses/Error404"}`, at(t, paths, "/api/projects/{project}/jobs", "put", "responses", "404"))
	require.NotContains(t, at(t, paths, "/healthz", "head", "responses", "503"), "content")
}

func TestGenerate_security(t *testing.T) {
	t.Parallel()
	doc := document(t)
	paths := at(t, doc, "paths")
	for target, want := range map[string]string{
		"post /api/jobs": `[{"accessToken":[]}]`, "get /api/jobs": `[]`, "get /healthz": `[]`,
		"post /api/ingest/logs":                     `[{"ingestToken":[]},{"ingestBearer":[]}]`,
		"post /inference/{deployment_id}/v1/{rest}": `[{"deploymentToken":[]}]`,
	} {
		method, path, _ := strings.Cut(target, " ")
		requireJSON(t, want, at(t, paths, path, method, "security"))
	}
	require.Equal(t, "admin", at(t, paths, "/api/jobs", "post", "x-service-role"))
	put := at(t, paths, "/api/projects/{project}/jobs", "put")
	require.Equal(t, "Make job", at(t, put, "summary"))
	require.Equal(t, "Puts a job there.\n\nIt may be there.", at(t, put, "description"))
	require.Equal(t, "makeJob", at(t, put, "operationId"))
	require.Equal(t, "getJob", at(t, paths, "/api/jobs/{job_id}", "get", "operationId"))
	require.Equal(t, "getJobOfOldRuns", at(t, paths, "/api/old-runs/{job_id}", "get", "operationId"))
	requireJSON(t, `["jobs"]`, at(t, put, "tags"))
	requireJSON(t, `[{"name":"health","description":"Up."},{"name":"jobs"},{"name":"inference"},{"name":"ingest"},{"name":"old-runs"}]`, at(t, doc, "tags"))
	requireJSON(t, `true`, at(t, put, "requestBody", "required"))
	requireJSON(t, `false`, at(t, paths, "/api/jobs", "post", "requestBody", "required"))
}

func TestGenerate_parameters(t *testing.T) {
	t.Parallel()
	paths := at(t, document(t), "paths")
	requireJSON(t, `[
		{"name":"limit","in":"query","required":false,"description":"The maximum number of rows.","schema":{"type":"integer","format":"int32","minimum":1,"maximum":500,"default":50}},
		{"name":"offset","in":"query","required":false,"description":"The number of rows to skip.","schema":{"type":"integer","format":"int32","minimum":0,"maximum":100000,"default":0}},
		{"name":"states","in":"query","required":false,"schema":{"type":"array","items":{"type":"string","enum":["queued","done"]}}},
		{"name":"since","in":"query","required":false,"schema":{"type":"string","format":"date-time"}}]`,
		at(t, paths, "/api/jobs", "get", "parameters"))
	requireJSON(t, `[{"name":"job_id","in":"path","required":true,"schema":{"type":"string","minLength":1}},
		{"name":"deep","in":"query","required":false,"schema":{"type":"boolean"}},
		{"name":"limit","in":"query","required":false,"schema":{"type":"integer","format":"int32","minimum":1,"maximum":100}}]`, at(t, paths, "/api/jobs/{job_id}", "get", "parameters"))
	requireJSON(t, `[{"$ref":"#/components/parameters/IdempotencyKey"}]`, at(t, paths, "/api/jobs", "post", "parameters"))
	requireJSON(t, `[{"name":"id","in":"path","required":true,"schema":{"type":"string","minLength":1}},
		{"name":"after","in":"query","required":false,"schema":{"type":"integer","format":"int64","minimum":-9223372036854775808,"maximum":9223372036854775807}},
		{"$ref":"#/components/parameters/LastEventID"}]`, at(t, paths, "/api/jobs/{id}/stream", "get", "parameters"))
	requireJSON(t, `[{"name":"deployment_id","in":"path","required":true,"schema":{"type":"string","minLength":1}},
		{"name":"rest","in":"path","required":true,"schema":{"type":"string","minLength":1}}]`,
		at(t, paths, "/inference/{deployment_id}/v1/{rest}", "post", "parameters"))
}

func TestGenerate_listsStreamsAndAnyMethod(t *testing.T) {
	t.Parallel()
	paths := at(t, document(t), "paths")
	rows := at(t, paths, "/api/jobs", "get", "responses", "200")
	requireJSON(t, `{"type":"array","items":{"$ref":"#/components/schemas/Job"}}`, at(t, rows, "content", "application/json", "schema"))
	require.Contains(t, at(t, rows, "headers"), "Link")
	require.NotContains(t, at(t, paths, "/api/jobs/{job_id}", "get", "responses", "200", "headers"), "Link")
	events := at(t, paths, "/api/jobs/{id}/stream", "get", "responses", "200", "content", "text/event-stream", "x-service-events")
	requireJSON(t, `{"$ref":"#/components/schemas/Job"}`, at(t, events, "job"))
	require.Contains(t, events, "eof")
	require.Contains(t, events, "error")
	item := at(t, paths, "/inference/{deployment_id}/v1/{rest}").(map[string]any)
	require.Len(t, item, 7)
	require.Contains(t, item["post"], "requestBody")
	require.NotContains(t, item["get"], "requestBody")
	require.Equal(t, "deleteInference", at(t, item["delete"], "operationId"))
	gone := at(t, paths, "/api/jobs/{job_id}", "delete")
	require.NotContains(t, at(t, gone, "responses", "204"), "content")
	require.Equal(t, "Away", at(t, gone, "summary"))
	requireJSON(t, `["jobs","more"]`, at(t, gone, "tags"))
}

func TestGenerate_invalidOverlays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"raw route without an operation": {"GET /healthz:", "GET /health:", "GET /healthz is not an RPC and has no operation"},
		"patch of an unknown route":      {"DELETE /api/jobs/{job_id}:", "DELETE /api/jobs/{id}:", "does not exist"},
		"operation of an RPC":            {"operations:", "operations:\n  GET /api/jobs: {operationId: x, responses: {}}", "GET /api/jobs does not exist, or is a route of another kind"},
		"duplicate operationId":          {"operationId: getHealth", "operationId: reportLogs", `operationId "reportLogs"`},
		"no id":                          {"operationId: getHealth, ", "", `operationId ""`},
		"no responses":                   {`responses: {"200": {description: Yes.}}, fails: [503]`, "", "no responses"},
		"status is a word":               {"fails: [503]", "fails: [many]", "is not a status"},
		"an unknown member":              {"patches:", "patch:", `"patch" is not one of`},
		"repeated member":                {"patches:", "document: {}\npatches:", "is repeated"},
		"invalid YAML":                   {"patches:", "patches: {", "parse overlay"},
		"area is a string":               {"- {name: projects}", "- projects", "an area must be a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, over, c.from)
			_, err := generate(image(t), []byte(list), []byte(strings.Replace(over, c.from, c.to, 1)), nil)
			require.ErrorContains(t, err, c.want)
		})
	}
	for _, text := range []string{"", "[]", "3"} {
		_, err := generate(image(t), []byte(list), []byte(text), nil)
		require.ErrorContains(t, err, "parse overlay")
	}
}

func TestFilesAreWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := inputs{image: filepath.Join(dir, "image"), list: filepath.Join(dir, "list"), overlay: filepath.Join(dir, "overlay"), goldens: filepath.Join(dir, "golden"), out: filepath.Join(dir, "gen", "openapi")}
	require.NoError(t, os.WriteFile(in.image, image(t), 0o600))
	require.NoError(t, os.WriteFile(in.list, []byte(list), 0o600))
	require.ErrorContains(t, run(in), "read input")
	require.NoError(t, os.WriteFile(in.overlay, []byte(over), 0o600))
	require.ErrorContains(t, run(in), "read the goldens")
	require.NoError(t, os.Mkdir(in.goldens, 0o750))
	golden := "A.\n-- request --\nGET /api/jobs/{{job}}\n-- response --\n200\n\n{\"job_id\": \"{{job}}\", \"<<rest>>\": \"<<any>>\"}\n"
	require.NoError(t, os.WriteFile(filepath.Join(in.goldens, "get.txtar"), []byte(golden), 0o600))
	require.NoError(t, run(in))
	text, err := os.ReadFile(filepath.Join(in.out, "openapi.json"))
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	require.Contains(t, string(text), `"job_id": "job_01kb4q6z8wexamp1eexamp1e00"`, "the golden's response must be the example")
	require.FileExists(t, filepath.Join(in.out, "openapi.go"))
	require.ErrorContains(t, run(inputs{}), "required")
}

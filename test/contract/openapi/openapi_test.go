package openapi_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/contract/openapi"
)

func load(t *testing.T) *openapi.Document {
	t.Helper()
	d, err := openapi.Load()
	require.NoError(t, err)
	return d
}

func operation(t *testing.T, d *openapi.Document, method, path string) *openapi.Operation {
	t.Helper()
	op, ok := d.Operation(method, path)
	require.True(t, ok, "%s %s", method, path)
	return op
}

func succeeds(status int) bool { return status >= 200 && status < 300 }

const requestID = "req_01kab3c4d5e6f7g8h9j0kmnpqr"

func header(pairs ...string) http.Header {
	h := http.Header{"X-Request-Id": {requestID}, "Content-Type": {"application/json"}}
	for i := 0; i < len(pairs); i += 2 {
		h.Del(pairs[i])
		if pairs[i+1] != "" {
			h.Set(pairs[i], pairs[i+1])
		}
	}
	return h
}

// TestDocument_matchesRouteTable compares the document with the table of served routes.
func TestDocument_matchesRouteTable(t *testing.T) {
	t.Parallel()
	d := load(t)
	served := map[string]bool{}
	for _, r := range route.Table() {
		op := operation(t, d, r.Method, r.Pattern)
		require.Equal(t, strings.ReplaceAll(r.Pattern, "...}", "}"), op.Path, "%s %s", r.Method, r.Pattern)
		require.NotEmpty(t, op.Statuses(), "%s %s", r.Method, r.Pattern)
		if r.Status != 0 {
			// The overlay may declare another success status than the route table.
			require.True(t, slices.ContainsFunc(op.Statuses(), succeeds), "%s %s declares no success status", r.Method, r.Pattern)
		}
		if r.Credential == "user" {
			require.Contains(t, op.Statuses(), http.StatusUnauthorized, "%s %s", r.Method, r.Pattern)
		}
		require.NotContains(t, op.Statuses(), http.StatusInternalServerError, "%s %s", r.Method, r.Pattern)
		served[r.Method+" "+op.Path] = true
	}
	ids := map[string]bool{}
	for _, op := range d.Operations() {
		require.True(t, served[op.Method+" "+op.Path] || served["* "+op.Path], "%s %s is not a route", op.Method, op.Path)
		require.NotEmpty(t, op.ID)
		require.False(t, ids[op.ID], "operation id %s is used twice", op.ID)
		ids[op.ID] = true
	}
}

func TestDocument_Operation(t *testing.T) {
	t.Parallel()
	d := load(t)
	for target, want := range map[string]string{
		"GET /api/jobs": "/api/jobs", "GET /api/jobs/job_1": "/api/jobs/{job_id}", "GET /api/jobs/{job_id}": "/api/jobs/{job_id}",
		"POST /api/fleets/join": "/api/fleets/join", "GET /api/blobs/a/b/c": "/api/blobs/{key}", "GET /api/blobs/{key...}": "/api/blobs/{key}",
		"POST /inference/dep_1/v1/chat/completions": "/inference/{deployment_id}/v1/{rest}", "* /inference/{deployment_id}/v1/{rest...}": "/inference/{deployment_id}/v1/{rest}",
	} {
		method, path, _ := strings.Cut(target, " ")
		require.Equal(t, want, operation(t, d, method, path).Path, target)
	}
	for _, target := range []string{"POST /api/version", "GET /api/nothing", "GET /api/jobs/", "GET /api/jobs/a/b/c/d", "TRACE /api/jobs", "GET /"} {
		method, path, _ := strings.Cut(target, " ")
		_, ok := d.Operation(method, path)
		require.False(t, ok, target)
	}
}

func TestOperation_CheckResponse(t *testing.T) {
	t.Parallel()
	d := load(t)
	const me = `{"username":"a","role":"admin","email":null,"teams":["t"],"quota":{"gpu_limit":1,"gpu_held":0,"gpu_queued":0,"gpu_available":1}}`
	for name, c := range map[string]struct {
		target string
		status int
		header http.Header
		body   string
		want   string
	}{
		"as declared":                       {"GET /api/auth/me", 200, header(), me, ""},
		"another status":                    {"GET /api/auth/me", 418, header(), me, "not declared"},
		"an unexpected failure":             {"GET /api/auth/me", 500, header(), `{"detail":"x"}`, "not declared"},
		"no request id":                     {"GET /api/auth/me", 200, header("X-Request-Id", ""), me, "X-Request-Id is missing"},
		"a malformed request id":            {"GET /api/auth/me", 200, header("X-Request-Id", "1"), me, "X-Request-Id"},
		"another content type":              {"GET /api/auth/me", 200, header("Content-Type", "text/plain"), me, "content type"},
		"no content type":                   {"GET /api/auth/me", 200, header("Content-Type", ""), me, "content type"},
		"a missing member":                  {"GET /api/auth/me", 200, header(), strings.Replace(me, `"email":null,`, "", 1), "email"},
		"null for a required value":         {"GET /api/auth/me", 200, header(), strings.Replace(me, `"role":"admin"`, `"role":null`, 1), "/role"},
		"a string for a number":             {"GET /api/auth/me", 200, header(), strings.Replace(me, `"gpu_held":0`, `"gpu_held":"0"`, 1), "/quota/gpu_held"},
		"a fraction":                        {"GET /api/auth/me", 200, header(), strings.Replace(me, `"gpu_held":0`, `"gpu_held":0.5`, 1), "/quota/gpu_held"},
		"an undeclared member":              {"GET /api/auth/me", 200, header(), strings.Replace(me, `{"username"`, `{"more":1,"username"`, 1), ""},
		"two JSON values":                   {"GET /api/auth/me", 200, header(), me + me, "not JSON"},
		"no body":                           {"GET /api/auth/me", 200, header(), "", "not JSON"},
		"an error":                          {"GET /api/auth/me", 401, header("WWW-Authenticate", "Bearer"), `{"detail":"Not authenticated"}`, ""},
		"an error without WWW-Authenticate": {"GET /api/auth/me", 401, header(), `{"detail":"Not authenticated"}`, "WWW-Authenticate is missing"},
		"a list for a string":               {"GET /api/auth/me", 401, header("WWW-Authenticate", "Bearer"), `{"detail":[]}`, "/detail"},
		"no detail":                         {"GET /api/auth/me", 401, header("WWW-Authenticate", "Bearer"), `{"error":"x"}`, "detail"},
		"validation errors":                 {"GET /api/jobs", 422, header(), `{"detail":[{"loc":["query",0],"msg":"m","type":"t"}]}`, ""},
		"a string for a list":               {"GET /api/jobs", 422, header(), `{"detail":"no"}`, "/detail"},
		"a loc of objects":                  {"GET /api/jobs", 422, header(), `{"detail":[{"loc":[{}],"msg":"m","type":"t"}]}`, "/detail/0/loc/0"},
		"a list":                            {"GET /api/jobs", 200, header("X-Total-Count", "3"), `[]`, ""},
		"a total that is not a number":      {"GET /api/jobs", 200, header("X-Total-Count", "many"), `[]`, "X-Total-Count"},
		"an envelope":                       {"GET /api/jobs", 200, header(), `{"jobs":[]}`, "got object"},
		"an empty response":                 {"DELETE /api/teams/team_1", 204, header("Content-Type", ""), "", ""},
		"an undeclared body":                {"DELETE /api/teams/team_1", 204, header(), "{}", "no body is declared"},
		"events":                            {"GET /api/jobs/j/stream", 200, header("Content-Type", "text/event-stream"), "id: 1\n\n", ""},
		"JSON for events":                   {"GET /api/jobs/j/stream", 200, header(), "{}", "content type"},
		"a response of an engine":           {"POST /inference/d/v1/x", 418, header("Content-Type", "image/png", "X-Request-Id", requestID), "\x89PNG", ""},
		"an unknown deployment":             {"POST /inference/d/v1/x", 404, header(), `{"detail":"no","error":{"message":"no","type":"t","code":null,"param":null}}`, ""},
		"an error without the OpenAI form":  {"POST /inference/d/v1/x", 404, header(), `{"detail":"no"}`, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			method, path, _ := strings.Cut(c.target, " ")
			err := operation(t, d, method, path).CheckResponse(c.status, c.header, []byte(c.body))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, method+" ", "the error must contain the operation")
		})
	}
}

// TestResponseSchemasCompile checks an empty object against the schema of every declared status. The schema
// must compile, but the object need not be valid.
func TestResponseSchemasCompile(t *testing.T) {
	t.Parallel()
	for _, op := range load(t).Operations() {
		for _, status := range op.Statuses() {
			err := op.CheckResponse(status, header("WWW-Authenticate", "Bearer"), []byte(`{}`))
			if err != nil {
				require.NotContains(t, err.Error(), "compile", "%s %d", op.ID, status)
			}
		}
	}
}

func TestOperation_Example(t *testing.T) {
	t.Parallel()
	d := load(t)
	for target, want := range map[string]string{
		"POST /api/auth/login":     `{"username":"a","password":"a"}`,
		"POST /api/projects":       `{"key":"--","name":"a"}`,
		"POST /api/teams":          `{"key":"--","name":"a"}`,
		"POST /api/auth/refresh":   ``,
		"GET /api/jobs":            ``,
		"PATCH /api/profile":       `{}`,
		"POST /api/ingest/logs":    `{"run_id":"a","chunks":[]}`,
		"POST /api/oauth/token":    ``,
		"POST /api/ingest/metrics": `{"run_id":"a","points":[]}`,
	} {
		method, path, _ := strings.Cut(target, " ")
		got, err := operation(t, d, method, path).Example(nil)
		require.NoError(t, err)
		if want == "" {
			require.Nil(t, got, target)
			continue
		}
		require.JSONEq(t, want, string(got), target)
	}
	got, err := operation(t, d, "POST", "/api/jobs").Example(map[string]any{"spec.name": "mine", "spec.recipe.lock.digest": "sha256:1", "spec.priority": 3})
	require.NoError(t, err)
	require.Contains(t, string(got), `"name":"mine"`)
	require.Contains(t, string(got), `"digest":"sha256:1"`)
	require.Contains(t, string(got), `"priority":3`)
}

func TestEveryBodyHasAnExample(t *testing.T) {
	t.Parallel()
	bodies := 0
	for _, op := range load(t).Operations() {
		got, err := op.Example(nil)
		require.NoError(t, err)
		if got != nil {
			bodies++
		}
	}
	require.Greater(t, bodies, 30)
}

func TestParse_invalidDocument(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `[]`, `{"paths":`, `3`} {
		_, err := openapi.Parse([]byte(text))
		require.ErrorContains(t, err, "read document", text)
	}
	d, err := openapi.Parse([]byte(`{"paths":{"/x":{"get":{"operationId":"x","responses":{"200":{"content":{"application/json":{"schema":{"type":"no such"}}}}}}}}}`))
	require.NoError(t, err)
	op := operation(t, d, "GET", "/x")
	require.Error(t, op.CheckResponse(200, header(), []byte(`{}`)))
}

func TestOperationPathsHaveNoHost(t *testing.T) {
	t.Parallel()
	d := load(t)
	paths := make([]string, 0, len(d.Operations()))
	for _, op := range d.Operations() {
		paths = append(paths, op.Path)
	}
	require.False(t, slices.ContainsFunc(paths, regexp.MustCompile(`^https?:`).MatchString))
}

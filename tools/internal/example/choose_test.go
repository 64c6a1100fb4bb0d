package example

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const described = `{
 "paths": {
  "/api/teams": {
   "get": {"responses": {"200": {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Team"}}}}}}},
   "post": {
    "requestBody": {"content": {"application/json": {"schema": {"type": "object", "properties": {"key": {"type": "string"}}}}}},
    "responses": {"201": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Team"}}}}, "409": {"$ref": "#/components/responses/Error409"}}
   }
  },
  "/api/teams/{team_id}": {"get": {"responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Team"}}}}}}},
  "/api/teams/top": {"get": {"responses": {"200": {"content": {"text/plain": {}}}}}},
  "/api/token": {"post": {
   "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}},
   "responses": {"200": {"content": {"text/event-stream": {}}}, "default": {"content": {"*/*": {}}}}
  }}
 },
 "components": {"schemas": {"Team": {"type": "object", "properties": {
  "id": {"type": "string"}, "key": {"type": "string"}, "created_at": {"type": "string", "format": "date-time"},
  "members": {"type": "array", "items": {"type": "string"}}}, "required": ["id", "key", "created_at", "members"]}}}
}`

// choose returns the examples of the goldens as JSON, by path, method and status.
func choose(t *testing.T, goldens ...string) map[string]string {
	t.Helper()
	var root map[string]any
	d := json.NewDecoder(strings.NewReader(described))
	d.UseNumber()
	require.NoError(t, d.Decode(&root))
	var all Goldens
	for _, text := range goldens {
		one, err := parse(text)
		require.NoError(t, err)
		all = append(all, one)
	}
	out := map[string]string{}
	for _, e := range Choose(root, all) {
		text, err := json.Marshal(e.Value)
		require.NoError(t, err)
		out[strings.TrimSpace(e.Method+" "+e.Path+" "+e.Status)] = string(text)
	}
	return out
}

func step(request, body, status, response string) string {
	return "-- request --\n" + request + "\n\n" + body + "\n-- response --\n" + status + "\n\n" + response + "\n"
}

const full = `{"id": "<<id team as made>>", "key": "{{unique}}", "created_at": "<<time>>", "members": ["<<each>>", "ada"]}`

func TestChoose_completeGoldenFillsOpenOnes(t *testing.T) {
	t.Parallel()
	got := choose(t, step("GET /api/teams/{{team_id}}", "", "200", `{"key": "other", "<<rest>>": "<<any>>"}`),
		step("POST /api/teams", `{"key": "{{unique}}"}`, "201", full)+step("GET /api/teams?key={{unique}}", "", "200", `["<<some>>", {"id": "{{made}}", "<<rest>>": "<<any>>"}]`))
	team := `{"created_at":"2026-11-21T03:00:00.123456+00:00","id":"team_` + ulid + `","key":"aurora","members":["ada"]}`
	require.JSONEq(t, team, got["post /api/teams 201"])
	require.JSONEq(t, `{"key":"aurora"}`, got["post /api/teams"])
	require.JSONEq(t, "["+team+"]", got["get /api/teams 200"])
	require.JSONEq(t, strings.Replace(team, "aurora", "other", 1), got["get /api/teams/{team_id} 200"])
}

func TestChoose_order(t *testing.T) {
	t.Parallel()
	named := func(key string) string {
		return step("GET /api/teams/{{team_id}}", "", "200", strings.Replace(full, "{{unique}}", key, 1))
	}
	const of = "get /api/teams/{team_id} 200"
	require.Contains(t, choose(t, named("first"), named("second"))[of], `"first"`)
	require.Contains(t, choose(t, named(strings.Repeat("long", large)), named("second"))[of], `"second"`)
	require.Contains(t, choose(t, named("{{unknown}}"), named("second"))[of], `"second"`)
	require.Contains(t, choose(t, strings.Replace(named("second"), `["<<each>>", "ada"]`, "[]", 1), named("first"))[of], `"first"`)
	marked := strings.Replace(named("marked"), "-- request --", "-- request example --", 1)
	require.Contains(t, choose(t, named("first"), marked)[of], `"marked"`)
}

func TestChoose_emptyListGetsAnItem(t *testing.T) {
	t.Parallel()
	got := choose(t, step("GET /api/teams", "", "200", `[]`))
	require.JSONEq(t, `[{"created_at":"2026-11-21T03:00:00.123456+00:00","id":"id","key":"installation.announcement","members":["members"]}]`, got["get /api/teams 200"])
}

func TestChoose_otherMedia(t *testing.T) {
	t.Parallel()
	got := choose(t, step("GET /api/teams/top", "", "200", "<<text LIKE (?s)first\n[a-z]+ as word>>"),
		step("POST /api/token", "grant_type=code&project={{project}}", "200", "id: 1\n\ndata: {}")+step("POST /api/token", "a=b", "500", `{"n": "<<int>>"}`))
	require.JSONEq(t, `"first\na\n"`, got["get /api/teams/top 200"])
	require.JSONEq(t, `{"grant_type":"code","project":"search"}`, got["post /api/token"])
	require.JSONEq(t, `"id: 1\n\ndata: {}\n"`, got["post /api/token 200"])
	require.JSONEq(t, `{"n":1}`, got["post /api/token default"])
}

func TestChoose_ignored(t *testing.T) {
	t.Parallel()
	require.Empty(t, choose(t, step("GET /api/elsewhere", "", "200", `{}`), step("POST /api/teams", `{"key": "x"}`, "409", `{"detail": "no"}`),
		step("POST /api/teams", "{", "409", ""), step("GET /api/teams/top", "", "200", "<<any>>"), step("GET /api/teams/", "", "200", full),
		step("GET /api/teams/top/more", "", "200", full)))
}

func TestOperation_engineMatchesRemainingSegments(t *testing.T) {
	t.Parallel()
	require.True(t, fits("/inference/{deployment_id}/v1/{rest}", "/inference/d/v1/chat/completions"))
	require.True(t, fits("/api/blobs/{key}", "/api/blobs/a/b"))
	require.False(t, fits("/api/jobs/{key}", "/api/jobs/a/b"))
	require.False(t, fits("/api/jobs", "/api/teams"))
}

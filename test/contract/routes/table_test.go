package routes

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/signalbox-dev/signalbox/gen/route"
)

// TestRoutes_complete checks that the table has a complete row for every route that the gateway serves, and no other rows.
func TestRoutes_complete(t *testing.T) {
	t.Parallel()
	for _, sentence := range Load().Missing {
		assert.Fail(t, sentence)
	}
}

// serve returns the routes of the generated table that have these names, for which the small table below is complete.
func serve(t *testing.T, names ...string) (out []route.Route) {
	t.Helper()
	for _, rt := range route.Table() {
		for _, name := range names {
			if rt.Method+" "+rt.Pattern == name {
				out = append(out, rt)
			}
		}
	}
	require.Len(t, out, len(names))
	return out
}

const small = `
[rules]
read   401 403 ok   ok   ok   ok   ok   ok   ok   ok   404  404 404
change 401 403 ok   ok   403  ok   ok   ok   ok   403  404  404 404
list   401 403 both both both both both both both open open -   -
[variables]
id      /api/jobs/=job_id
job_id  id:job @job run
version 1      v1
run_id  id:run -
[routes]
GET   /api/jobs                           list   200 of=job_id query=state=all
GET   /api/jobs/{id}/logs                 read   200 empty="no line is written"
PATCH /api/jobs/{job_id}                  change 200,409
GET   /api/runs/{run_id}/notes/{version}  read   200
[bodies]
PATCH /api/jobs/{job_id} {"name": "two words"}
`

func smallRoutes(t *testing.T) []route.Route {
	t.Helper()
	return serve(t, "GET /api/jobs", "GET /api/jobs/{id}/logs", "PATCH /api/jobs/{job_id}", "GET /api/runs/{run_id}/notes/{version}")
}

func TestParse(t *testing.T) {
	t.Parallel()
	table := parse(small, smallRoutes(t))
	require.Empty(t, table.Missing)
	require.Len(t, table.Rows, 4)
	require.Equal(t, []any{"GET /api/jobs", "job_id", "state=all", []int{http.StatusOK}}, []any{table.Rows[0].Name(), table.Rows[0].Of, table.Rows[0].Query, table.Rows[0].Success})
	require.Equal(t, "no line is written", table.Rows[1].Empty)
	require.Equal(t, []any{`{"name": "two words"}`, []int{http.StatusOK, http.StatusConflict}}, []any{table.Rows[2].Request, table.Rows[2].Success})
	require.Equal(t, "job_id", table.Rows[2].Object())
	v, ok := table.Variable("/api/jobs/{id}/logs", "id")
	require.True(t, ok)
	require.Equal(t, Variable{Name: "job_id", Prefix: "job", Absent: "job_" + strings.Repeat("0", 26), Shared: "job", OfRun: true}, v)
	require.Equal(t, "/api/jobs/job_"+strings.Repeat("0", 26)+"/logs", table.Absent("/api/jobs/{id}/logs"))
	require.Equal(t, "/api/runs/run-nonsense/notes/1", table.Malformed("/api/runs/{run_id}/notes/{version}"))
	require.Equal(t, "/api/x/none/v1", table.Fill("/api/x/{widget}/{version...}", func(v Variable) string { return v.Present }))
}

// TestParse_missing breaks the small table. It must then have exactly one sentence, and the rows that are still complete.
func TestParse_missing(t *testing.T) {
	t.Parallel()
	const logs, jobs, patch = `GET   /api/jobs/{id}/logs                 read   200 empty="no line is written"`, "of=job_id query=state=all", "change 200,409"
	for name, tc := range map[string]struct {
		old, changed string
		want         []string
		rows         int
	}{
		"no row of a list": {logs, "", []string{
			`GET /api/jobs/{id}/logs has no row: add "GET /api/jobs/{id}/logs RULE STATUS" to [routes]`, "a function to test/contract/list_*.go", `empty="WHY"`, path,
		}, 3},
		"no row of a call that changes": {"PATCH /api/jobs/{job_id}                  " + patch, "", []string{
			"PATCH /api/jobs/{job_id} has no row", "test/identity/leak", `add "PATCH /api/jobs/{job_id} BODY" to [bodies]`,
		}, 3},
		"no value":                   {"run_id  id:run -", "", []string{`{run_id} has no value: add "run_id id:PREFIX -" to [variables]`}, 3},
		"no meaning":                 {"id      /api/jobs/=job_id", "id /api/fleets/=job_id", []string{"{id} of /api/jobs/{id}/logs has no meaning"}, 3},
		"an unknown prefix":          {"id:run", "id:widget", []string{"platform/id has no prefix widget"}, 4},
		"a variable without a value": {"version 1      v1", "version 1", []string{`write "version id:PREFIX -"`}, 3},
		"a row of no route":          {"[bodies]", "GET /api/widgets read 200\n[bodies]", []string{"GET /api/widgets is not served: remove its row"}, 4},
		"a row twice":                {"[bodies]", logs + "\n[bodies]", []string{"GET /api/jobs/{id}/logs has two rows"}, 4},
		"half a row":                 {logs, logs + "\nGET /api/jobs", []string{`"GET /api/jobs" cannot be read`}, 4},
		"an unknown rule":            {patch, "write 200", []string{"PATCH /api/jobs/{job_id}: rule write is not in [rules]"}, 3},
		"no success":                 {patch, "change -", []string{"PATCH /api/jobs/{job_id} must have the status of a success"}, 3},
		"no number":                  {patch, "change 200,x", []string{`"x" is not a status`}, 3},
		"no objects":                 {jobs, "query=state=all", []string{"GET /api/jobs must have the word of=VARIABLE"}, 3},
		"objects without an id":      {jobs, "of=version", []string{"of=version must name a variable of an id"}, 3},
		"no body":                    {`PATCH /api/jobs/{job_id} {"name": "two words"}`, "", []string{"PATCH /api/jobs/{job_id} must have a line in [bodies]"}, 3},
		"an unknown word":            {jobs, "of=job_id grows", []string{`the word grows="" is unknown`}, 3},
		"no word":                    {jobs, "of=job_id 5", []string{`"5" cannot be read`}, 3},
		"fixed, but no list":         {patch, patch + ` fixed="x"`, []string{`the word fixed="WHY", which only lists may have`}, 3},
		"empty, but no read":         {patch, patch + ` empty="x"`, []string{`the word empty="WHY"`}, 3},
		"sometimes, but empty":       {logs, logs + ` sometimes="x"`, []string{`the word sometimes="WHY", which only calls with GET and without empty may have`}, 3},
		"sometimes, but no read":     {patch, patch + ` sometimes="x"`, []string{`the word sometimes="WHY"`}, 3},
		"unaudited, but a read":      {jobs, jobs + ` unaudited="x"`, []string{`the word unaudited="WHY"`}, 3},
		"required without query":     {jobs, "of=job_id required", []string{"the word required"}, 3},
		"a rule too many":            {"list   401", "spare " + strings.Repeat(" 401", 13) + "\nlist 401", []string{"no route has the rule spare"}, 4},
		"a column too many":          {"list   401", "spare " + strings.Repeat(" 401", 14) + "\nlist 401", []string{"rule spare has 14 results"}, 4},
		"an unknown result":          {"list   401 403 both", "list 401 405 both", []string{"relation newcomer has the unknown result 405"}, 4},
		"anyone":                     {"list   401", "list ok", []string{"callers without a credential may use only public routes"}, 4},
		"a body too many":            {"[bodies]", "[bodies]\nGET /api/jobs#x {}", []string{"[bodies] has a line of GET /api/jobs#x"}, 4},
		"half a body":                {"[bodies]", "[bodies]\nGET /api/jobs", []string{`"GET /api/jobs" cannot be read: write METHOD PATTERN BODY`}, 4},
		"a variable too many":        {"run_id  id:run -", "run_id  id:run -\nspare 1 1", []string{"no route has the variable spare"}, 4},
		"a meaning too many":         {"/api/jobs/=job_id", "/api/jobs/=job_id /api/nodes/=job_id", []string{"no route below /api/nodes/ has the variable id"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, 1, strings.Count(small, tc.old))
			table := parse(strings.Replace(small, tc.old, tc.changed, 1), smallRoutes(t))
			require.Len(t, table.Missing, 1)
			for _, want := range tc.want {
				assert.Contains(t, strings.Join(table.Missing, "\n"), want)
			}
			assert.Len(t, table.Rows, tc.rows)
		})
	}
}

// unpagedCall is a call that returns its list without pages, as the descriptor of a protocol buffer.
const unpagedCall = `
name: "test/unpaged.proto" package: "test" syntax: "proto3" dependency: "google/api/annotations.proto"
message_type { name: "In" field { name: "limit" number: 1 type: TYPE_INT32 } }
message_type { name: "Out" field { name: "rows" number: 1 type: TYPE_STRING label: LABEL_REPEATED } }
service { name: "Rows" method { name: "List" input_type: ".test.In" output_type: ".test.Out"
  options { [google.api.http] { get: "/api/rows" response_body: "rows" } } } }`

// A list without pages would be missed by all tests of lists, so it must be stated.
func TestParse_unpaged(t *testing.T) {
	t.Parallel()
	file := &descriptorpb.FileDescriptorProto{}
	require.NoError(t, prototext.Unmarshal([]byte(unpagedCall), file))
	made, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	require.NoError(t, err)
	method := made.Services().Get(0).Methods().Get(0)
	require.True(t, returnsArray(method))
	require.True(t, unpaged(method), "it has limit, but no offset")
	for _, rt := range route.Table() {
		require.False(t, Unpaged(rt), rt.Pattern)
	}
}

// TestKinds checks what the tests take from the descriptors of calls.
func TestKinds(t *testing.T) {
	t.Parallel()
	type kinds struct{ List, Limited, Endless, Changing bool }
	for name, want := range map[string]kinds{
		"GET /api/jobs":                  {List: true, Limited: true},
		"GET /api/solution-applications": {List: true},
		"GET /api/quota":                 {},
		"GET /healthz":                   {},
		"GET /api/jobs/stream":           {Endless: true},
		"GET /api/runs/stream":           {Endless: true},
		"GET /api/jobs/{id}/stream":      {},
		"POST /api/runs/search":          {Changing: true},
		"POST /api/ingest/logs":          {},
	} {
		rt := serve(t, name)[0]
		require.Equal(t, want, kinds{List(rt), Limited(rt), Endless(rt), Changing(rt)}, name)
	}
}

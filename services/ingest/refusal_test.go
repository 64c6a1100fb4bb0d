package ingest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// problems returns the paths and types of the errors in a 422 response.
func problems(t *testing.T, a response) []string {
	t.Helper()
	require.Equal(t, http.StatusUnprocessableEntity, a.status, string(a.body))
	var doc struct {
		Detail []struct {
			Loc  []any  `json:"loc"`
			Type string `json:"type"`
			Msg  string `json:"msg"`
		} `json:"detail"`
	}
	require.NoError(t, json.Unmarshal(a.body, &doc))
	var out []string
	for _, d := range doc.Detail {
		var loc []string
		for _, el := range d.Loc {
			loc = append(loc, fmt.Sprint(el))
		}
		require.NotEmpty(t, d.Msg)
		out = append(out, strings.Join(loc, ".")+" "+d.Type)
	}
	return out
}

// wrong contains, for each route, invalid bodies without run_id and the errors that they cause; nil accepts any error.
var wrong = map[string]map[string][]string{
	"lifecycle": {
		`"event":"paused","ts":` + ts:                  {"body.event enum"},
		`"event":"running"`:                            {"body.ts missing"},
		`"event":"running","ts":"2026-11-21T09:33:00"`: {"body.ts datetime_parsing"},
		`"Event":"running","ts":` + ts:                 {"body.Event extra_forbidden", "body.event missing"},
	},
	"metrics": {
		`"points":[{"key":"a","step":1,"value":1}]`:                                  {"body.points.0.ts missing"},
		`"points":[{"key":"a","step":1,"value":{"b":1},"ts":` + ts + `}]`:            {"body.points.0.value float_type"},
		`"points":[{"key":"a","step":1,"value":1,"ts":` + ts + `},{"key":7}]`:        {"body.points.1.key string_type", "body.points.1.step missing", "body.points.1.value missing", "body.points.1.ts missing"},
		`"points":[{"key":"a","step":"1","value":"nan","ts":` + ts + `,"unit":"s"}]`: {"body.points.0.step int_type", "body.points.0.value float_type", "body.points.0.unit extra_forbidden"},
		`"points":{}`:             {"body.points list_type"},
		`"points":[],"points":[]`: {"body.points duplicate_key"},
		`"point":[]`:              {"body.point extra_forbidden", "body.points missing"},
		`"points":[],"rank":-1`:   {"body.rank greater_than_equal"},
	},
	"hparams": {
		`"params":[]`:       {"body.params dict_type"},
		`"params":{"":1}`:   {"body.params. string_too_short"},
		`"params":{"a":1,}`: nil,
		`"hparams":{}`:      {"body.hparams extra_forbidden", "body.params missing"},
	},
	"validation": {
		`"samples":[]`:             {"body.step missing"},
		`"step":1,"samples":[[1]]`: {"body.samples.0 dict_type"},
		`"step":1,"samples":[{"reward":"good","prompt":1,"extra":[]}]`: {"body.samples.0.reward float_type", "body.samples.0.prompt extra_forbidden", "body.samples.0.extra dict_type"},
		`"step":1,"samples":[],"chunk_index":2,"total_chunks":2`:       {"body.chunk_index value_error"},
		`"step":1,"samples":[],"chunk_index":0`:                        {"body.total_chunks missing"},
		`"step":1,"samples":[],"total_chunks":0`:                       {"body.total_chunks greater_than_equal", "body.chunk_index value_error"},
	},
	"logs": {
		`"chunks":"x"`:               {"body.chunks list_type"},
		`"chunks":["x",1]`:           {"body.chunks.1 string_type"},
		`"chunks":["x"],"eof":"yes"`: {"body.eof bool_type"},
	},
	"artifact": {
		`"kind":"model","path":"x","format":"gguf"`:                    {"body.kind enum"},
		`"kind":"checkpoint","path":"","format":""`:                    {"body.path string_too_short", "body.format string_too_short"},
		`"kind":"checkpoint","path":"a\u0000","format":"f"`:            {"body.path value_error"},
		`"kind":"checkpoint","path":"x","format":"f","size_bytes":-1`:  {"body.size_bytes greater_than_equal"},
		`"kind":"checkpoint","path":"x"`:                               {"body.format missing"},
		`"kind":"checkpoint","path":"x","format":"f","sha256":"00"`:    {"body.sha256 extra_forbidden"},
		`"kind":"checkpoint","path":"x","format":"f","step":1.5`:       {"body.step int_parsing"},
		`"kind":"checkpoint","path":"x","format":"f","size_bytes":"1"`: {"body.size_bytes int_type"},
	},
	"hardware": {
		`"points":[{"ts":` + ts + `,"key":"util","value":"high"}]`:           {"body.points.0.value float_type"},
		`"points":[{"ts":` + ts + `,"key":"util","value":1,"gpu":{}}]`:       {"body.points.0.gpu int_type"},
		`"points":[{"ts":` + ts + `,"key":"util","value":1,"host":"a"}]`:     {"body.points.0.host extra_forbidden"},
		`"points":[{"key":"util","value":1}]`:                                {"body.points.0.ts missing"},
		`"points":[{"ts":` + ts + `,"key":"u","value":1,"node":7,"gpu":1}]`:  {"body.points.0.node string_type"},
		`"points":[{"ts":` + ts + `,"key":"u","value":1}],"rank":"0"`:        {"body.rank int_type"},
		`"points":[{"ts":` + ts + `,"key":"u","value":1,"gpu":1,"gpu":"2"}]`: {"body.points.0.gpu duplicate_key"},
	},
	"environment": {
		`"python":3`:             {"body.python string_type"},
		`"packages":{"numpy":2}`: {"body.packages.numpy string_type"},
		`"gpus":"H100"`:          {"body.gpus list_type"},
		`"kernel":"6"`:           {"body.kernel extra_forbidden"},
	},
	"environment/nodes": {
		`"nodes":[{"rank":0}]`:                        {"body.nodes.0.host missing"},
		`"nodes":[{"rank":"0","host":"a"}]`:           {"body.nodes.0.rank int_type"},
		`"nodes":[{"rank":0,"host":"a","mem_gb":""}]`: {"body.nodes.0.mem_gb float_type"},
	},
	"benchmark": {
		`"name":"gsm8k","metric":"acc"`:                      {"body.value missing"},
		`"name":"gsm8k","metric":"","value":1`:               {"body.metric string_too_short"},
		`"name":"gsm8k","metric":"acc","value":1,"n":-1`:     {"body.n greater_than_equal"},
		`"name":"gsm8k","metric":"acc","value":1,"score":-1`: {"body.score extra_forbidden"},
	},
}

func TestInvalidBodies_reportFieldPaths(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	for path, bodies := range wrong {
		for rest, want := range bodies {
			a := run.call(http.MethodPost, path, "", run.body(rest))
			got := problems(t, a)
			if want != nil {
				require.Equal(t, want, got, "%s %s", path, rest)
			}
		}
		for _, body := range []string{
			"", "null", "[]", "{", `"x"`, "{\"run_id\":\"\xff\"}", strings.Repeat("[", 10_000), `{"run_id":7}`, `{"run_id":"x\u0000"}`, "\x00",
			`{"runId":"` + run.run + `"}`, run.body(`"run_id":"run_2"`),
		} {
			require.NotEmpty(t, problems(t, run.call(http.MethodPost, path, "", body)), "%s %q", path, body)
		}
	}
	require.Zero(t, count(t, r.h, "metric_batch")+count(t, r.h, "record")+count(t, r.h, "log_chunk")+count(t, r.h, "mark"))
}

// count returns the number of rows in a table.
func count(t *testing.T, h *harness, table string) int {
	t.Helper()
	var n int
	require.NoError(t, h.db.Pool(ingest.Name).QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
	return n
}

func TestInvalidQueries_reportParameterNames(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	sum := strings.Repeat("a", 64)
	cases := map[string][]string{
		"watermark":                   {"query.run_id missing"},
		"watermark?run_id=a&run_id=b": {"query.run_id value_error"},
		"watermark?run_id=a&token=x":  {"query.token extra_forbidden"},
		"artifact/upload-url?run_id=" + run.run + "&kind=x&path=&size_bytes=-1&sha256=" + strings.ToUpper(sum): {
			"query.kind enum", "query.path string_too_short", "query.size_bytes int_parsing", "query.sha256 string_pattern_mismatch",
		},
		"artifact/upload-url?run_id=" + run.run + "&kind=checkpoint&path=" + strings.Repeat("x", 4097) + "&size_bytes=1&sha256=" + sum: {
			"query.path string_too_long",
		},
	}
	for path, want := range cases {
		require.Equal(t, want, problems(t, run.call(http.MethodGet, path, "", "")), path)
	}
	for _, key := range []string{"w", ":1", "w:", "w:0", "w:01", "w:-1", "w:1.0", "w :1", "wé:1", strings.Repeat("w", 254) + ":1", "w:99999999999999999999"} {
		a := run.call(http.MethodPost, "logs", key, run.body(`"chunks":[]`))
		require.Equal(t, []string{"header.idempotency-key string_pattern_mismatch"}, problems(t, a), key)
	}
}

func TestReports_acceptedCredentials(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run, other := r.train(), r.train()
	body := run.body(`"chunks":["x\n"]`)
	cases := map[string]struct {
		header map[string][]string
		body   string
		want   int
	}{
		"none":            {nil, body, 401},
		"bearer":          {map[string][]string{"Authorization": {"Bearer " + run.token}}, body, 200},
		"bearer in caps":  {map[string][]string{"Authorization": {"BEARER " + run.token}}, body, 200},
		"own header":      {map[string][]string{"X-Service-Token": {run.token}}, body, 200},
		"both the same":   {map[string][]string{"X-Service-Token": {run.token}, "Authorization": {"Bearer " + run.token}}, body, 200},
		"both, different": {map[string][]string{"X-Service-Token": {run.token}, "Authorization": {"Bearer " + other.token}}, body, 401},
		"twice":           {map[string][]string{"X-Service-Token": {run.token, run.token}}, body, 401},
		"basic":           {map[string][]string{"Authorization": {"Basic " + run.token}}, body, 401},
		"another kind":    {map[string][]string{"Authorization": {"Bearer dtk_" + run.token[4:]}}, body, 401},
		"a jwt":           {map[string][]string{"Authorization": {"Bearer eyJhbGciOiJub25lIn0.e30."}}, body, 401},
		"mistyped":        {map[string][]string{"X-Service-Token": {mistyped(run.token)}}, body, 401},
		"another run":     {map[string][]string{"X-Service-Token": {other.token}}, body, 403},
		"a run's prefix":  {map[string][]string{"X-Service-Token": {run.token}}, `{"run_id":"` + run.run[:20] + `","chunks":[]}`, 403},
	}
	for name, c := range cases {
		req := httptest.NewRequest(http.MethodPost, "/api/ingest/logs?token="+run.token, strings.NewReader(c.body))
		maps.Copy(req.Header, c.header)
		a := r.serve(req)
		require.Equal(t, c.want, a.status, "%s: %s", name, a.body)
		require.NotEmpty(t, a.header.Get(fault.HeaderRequestID))
		if c.want == http.StatusUnauthorized {
			require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			require.NotEmpty(t, a.json(t)["detail"])
		}
	}
	require.Equal(t, 4, count(t, r.h, "log_chunk"))
}

func TestRejectedRequests_storeNothing(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	big := run.body(`"chunks":["` + strings.Repeat("x", 1<<20) + `"]`)
	require.Equal(t, http.StatusRequestEntityTooLarge, run.call(http.MethodPost, "logs", "", big).status)
	unsized := httptest.NewRequest(http.MethodPost, "/api/ingest/logs", strings.NewReader(big))
	unsized.ContentLength = -1
	unsized.Header.Set("Authorization", "Bearer "+run.token)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.serve(unsized).status)
	require.Equal(t, http.StatusNotFound, run.call(http.MethodPost, "nothing", "", "{}").status)
	require.Equal(t, http.StatusMethodNotAllowed, run.call(http.MethodGet, "metrics", "", "").status)
	require.Equal(t, http.StatusMethodNotAllowed, run.call(http.MethodPost, "watermark", "", "").status)
	packed := httptest.NewRequest(http.MethodPost, "/api/ingest/logs", strings.NewReader(run.body(`"chunks":[]`)))
	packed.Header.Set("Authorization", "Bearer "+run.token)
	packed.Header.Set("Content-Encoding", "gzip")
	require.Equal(t, http.StatusUnprocessableEntity, r.serve(packed).status)
	require.Zero(t, count(t, r.h, "log_chunk"))
}

func TestReports_afterRunEnd(t *testing.T) {
	t.Parallel()
	h := open(t)
	r := h.replica(ingest.Config{})
	for name, c := range map[string]struct {
		ended time.Duration
		want  int
	}{"just now": {time.Microsecond, 409}, "long ago": {time.Hour, 409}} {
		run := r.train()
		run.grant.EndedAt = timestamppb.New(h.clock.Now().Add(-c.ended))
		a := run.call(http.MethodPost, "logs", "", run.body(`"chunks":["late\n"]`))
		require.Equal(t, c.want, a.status, "%s: %s", name, a.body)
		a = run.call(http.MethodGet, "artifact/upload-url?kind=checkpoint&path=x&size_bytes=1&sha256="+strings.Repeat("a", 64)+"&run_id="+run.run, "", "")
		require.Equal(t, c.want, a.status, "%s: %s", name, a.body)
		// The jobs service decides whether a lifecycle event is valid; ingest therefore accepts an event even after the run
		// has ended.
		require.Equal(t, 200, run.call(http.MethodPost, "lifecycle", "", run.body(`"event":"failed","ts":`+ts)).status)
	}
	run := r.train()
	h.jobs.mu.Lock()
	h.jobs.lifecycle = fault.New(fault.Conflict, "lifecycle", "lifecycle: failed was already reported")
	h.jobs.mu.Unlock()
	a := run.call(http.MethodPost, "lifecycle", "w:1", run.body(`"event":"running","ts":`+ts))
	require.Equal(t, 409, a.status)
	require.Equal(t, "lifecycle: failed was already reported", a.json(t)["detail"])
	require.Empty(t, run.watermark()["lifecycle"])
}

func TestReplacedAttempt_storesNothing(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run := r.train()
	old := *run
	old.post("logs", "a:1", `"chunks":["first\nopen"]`)
	run.attempt(2)
	run.grant.Current = true
	run.post("logs", "b:1", `"chunks":["second\n"]`)
	// The grant of the replaced attempt is still cached. The request is rejected because the run's row has a newer
	// attempt.
	a := old.call(http.MethodPost, "logs", "a:2", old.body(`"chunks":["zombie\n"]`))
	require.Equal(t, 409, a.status, string(a.body))
	require.Equal(t, []string{"1 first", "1 open", "2 second"}, run.lines())
}

// mistyped returns the token with another last character.
func mistyped(token string) string {
	last := "x"
	if strings.HasSuffix(token, last) {
		last = "y"
	}
	return token[:len(token)-1] + last
}

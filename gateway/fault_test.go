package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
)

// entries returns each fault of a 422 response as `loc type`. It requires that no fault repeats its input.
func entries(t *testing.T, a response) []string {
	t.Helper()
	list, ok := a.json(t)["detail"].([]any)
	require.True(t, ok, a.body)
	var out []string
	for _, e := range list {
		entry := e.(map[string]any)
		require.NotEmpty(t, entry["msg"])
		require.NotContains(t, entry, "input")
		out = append(out, fmt.Sprint(entry["loc"], " ", entry["type"]))
	}
	return out
}

func TestParameterFaultsHaveLocation(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	cases := map[string]struct {
		method, path, body string
		want               []string
	}{
		"not JSON":               {"POST", "/api/jobs", `{"api":}`, []string{"[body 7] json_invalid"}},
		"unknown names":          {"POST", "/api/jobs", `{"apI":"x","spec":{"nope":1}}`, []string{"[body apI] extra_forbidden", "[body spec nope] extra_forbidden"}},
		"wrong type":             {"POST", "/api/jobs", `{"spec":{"resources":{"pools":[{"nodes":"3"}]}}}`, []string{"[body spec resources pools 0 nodes] int_type"}},
		"repeated name":          {"POST", "/api/auth/login", `{"username":"a","username":"b"}`, []string{"[body username] duplicate_key"}},
		"enum":                   {"POST", "/api/fleets", `{"kind":"FLEET_KIND_AGENT"}`, []string{"[body kind] enum"}},
		"raw JSON":               {"POST", "/api/jobs", `{"spec":{"hparams":{"a":1,"a":2}}}`, []string{"[body spec hparams a] duplicate_key"}},
		"name set by the path":   {"POST", "/api/datasets/ds_1/versions", `{"dataset_id":"ds_2"}`, []string{"[body dataset_id] extra_forbidden"}},
		"unexpected body":        {"POST", "/api/jobs/job_1/stop", `{"force":true}`, []string{"[body force] extra_forbidden"}},
		"unexpected garbage":     {"POST", "/api/jobs/job_1/stop", `<xml>`, []string{"[body 0] json_invalid"}},
		"unknown query":          {"GET", "/api/jobs?limit=1&Limit=2&x=1", ``, []string{"[query Limit] extra_forbidden", "[query x] extra_forbidden"}},
		"repeated query name":    {"GET", "/api/jobs?limit=1&limit=2", ``, []string{"[query limit] duplicate_key"}},
		"query type":             {"GET", "/api/jobs?limit=ten&offset=", ``, []string{"[query limit] int_parsing", "[query offset] int_parsing"}},
		"query fraction":         {"GET", "/api/jobs?limit=1.0", ``, []string{"[query limit] int_parsing"}},
		"query NUL":              {"GET", "/api/jobs?state=%00", ``, []string{"[query state] string_type"}},
		"query not UTF-8":        {"GET", "/api/jobs?state=%ff", ``, []string{"[query state] string_type"}},
		"query badly encoded":    {"GET", "/api/jobs?state=%zz", ``, []string{"[query] value_error"}},
		"query with semicolons":  {"GET", "/api/jobs?limit=1;offset=2", ``, []string{"[query] value_error"}},
		"query with path name":   {"GET", "/api/jobs/job_1?job_id=job_2", ``, []string{"[query job_id] extra_forbidden"}},
		"query beside a body":    {"POST", "/api/jobs?api=x", `{}`, []string{"[query api] extra_forbidden"}},
		"query bound, low":       {"GET", "/api/jobs?limit=0", ``, []string{"[query limit] greater_than_equal"}},
		"query bound, high":      {"GET", "/api/jobs?offset=100001", ``, []string{"[query offset] less_than_equal"}},
		"path type":              {"GET", "/api/model-deployments/d/revisions/one", ``, []string{"[path number] int_parsing"}},
		"path out of range":      {"GET", "/api/model-deployments/d/revisions/4294967296", ``, []string{"[path number] int_parsing"}},
		"path bound":             {"GET", "/api/model-deployments/d/revisions/0", ``, []string{"[path number] greater_than_equal"}},
		"rule of the body":       {"POST", "/api/auth/login", `{"username":"a"}`, []string{"[body password] missing"}},
		"rule of an empty body":  {"POST", "/api/auth/login", ``, []string{"[body username] missing", "[body password] missing"}},
		"empty in the body":      {"POST", "/api/auth/login", `{"username":"","password":"x"}`, []string{"[body username] string_too_short"}},
		"missing enum":           {"POST", "/api/fleets", `{"name":"f"}`, []string{"[body kind] missing", "[body pools] missing"}},
		"value not in a list":    {"PATCH", "/api/fleets/flt_1", `{"state":"x"}`, []string{"[body state] enum"}},
		"blank body":             {"POST", "/api/fleets/flt_1/join-tokens", " \n", []string{"[body 2] json_invalid"}},
		"null body":              {"POST", "/api/fleets/flt_1/join-tokens", "null", []string{"[body] dict_type"}},
		"rule deep in the body":  {"POST", "/api/jobs", strings.Replace(job, `[{"pool":"default"}]`, `[]`, 1), []string{"[body spec resources pools] too_short"}},
		"required in the body":   {"POST", "/api/jobs", `{"api":"x"}`, []string{"[body spec] missing"}},
		"path beside the body":   {"POST", "/api/model-deployments/d/revisions", `{}`, []string{"[body source] missing"}},
		"rule of a list element": {"POST", "/api/fleets", `{"name":"f","kind":"agent","pools":["a",""]}`, []string{"[body pools 1] string_too_short"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.do(tc.method, tc.path, tc.body, as(adminToken)...)
			require.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
			require.ElementsMatch(t, tc.want, withoutInput(t, got))
		})
	}
}

// withoutInput is like entries, but also accepts faults of a service, which may repeat an out-of-range number as
// input.
func withoutInput(t *testing.T, a response) []string {
	t.Helper()
	list, ok := a.json(t)["detail"].([]any)
	require.True(t, ok, a.body)
	var out []string
	for _, e := range list {
		entry := e.(map[string]any)
		require.NotEmpty(t, entry["msg"])
		out = append(out, fmt.Sprint(entry["loc"], " ", entry["type"]))
	}
	return out
}

func TestInvalidHeadersRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	cases := map[string]struct {
		headers []string
		want    string
	}{
		"form":            {[]string{"Content-Type", "application/x-www-form-urlencoded"}, "[header content-type] literal_error"},
		"text":            {[]string{"Content-Type", "text/plain"}, "[header content-type] literal_error"},
		"other charset":   {[]string{"Content-Type", "application/json; charset=utf-16"}, "[header content-type] literal_error"},
		"two types":       {[]string{"Content-Type", "application/json", "Content-Type", "text/plain"}, "[header content-type] literal_error"},
		"no type":         {[]string{"Content-Type", "/"}, "[header content-type] literal_error"},
		"compressed":      {[]string{"Content-Encoding", "gzip"}, "[header content-encoding] literal_error"},
		"two keys":        {[]string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, "[header idempotency-key] duplicate_key"},
		"long key":        {[]string{"Idempotency-Key", strings.Repeat("k", 256)}, "[header idempotency-key] value_error"},
		"unprintable key": {[]string{"Idempotency-Key", "ü"}, "[header idempotency-key] value_error"},
		"empty key":       {[]string{"Idempotency-Key", ""}, "[header idempotency-key] value_error"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.do("POST", "/api/jobs", job, as(userToken, tc.headers...)...)
			require.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
			require.Equal(t, []string{tc.want}, entries(t, got))
		})
	}
}

func TestBodySizeLimit(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	large := `{"api":"` + strings.Repeat("a", 4<<20) + `"}`
	got := r.do("POST", "/api/jobs", large, as(userToken)...)
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
	require.Contains(t, got.json(t)["detail"], "4194304 bytes")

	// Without a length, the limit applies while the body is read.
	conn := r.dial()
	_, err := fmt.Fprintf(conn, "POST /api/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", userToken, len(large))
	require.NoError(t, err)
	go func() { _, _ = io.WriteString(conn, large+"\r\n0\r\n\r\n") }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

func TestIncompleteBodiesRefused(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.RequestTimeout = 200 * time.Millisecond })
	head := "POST /api/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + userToken + "\r\nContent-Length: 100\r\n\r\n{"
	for name, end := range map[string]func(*net.TCPConn) error{
		"cut off":  (*net.TCPConn).CloseWrite,
		"trickled": func(*net.TCPConn) error { return nil },
	} {
		conn := r.dial()
		_, err := io.WriteString(conn, head)
		require.NoError(t, err)
		require.NoError(t, end(conn.(*net.TCPConn)))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, name)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, name)
		require.NoError(t, resp.Body.Close())
	}
}

func TestServiceFaultsReachClient(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.RequestTimeout = 300 * time.Millisecond })
	get := func(id string) response { return r.do("GET", "/api/jobs/"+id, "", as(userToken)...) }

	absent := get("job_9")
	require.Equal(t, http.StatusNotFound, absent.status)
	require.JSONEq(t, `{"detail":"no such job: job_9"}`, absent.body)

	impact := get("job_impact")
	require.Equal(t, http.StatusConflict, impact.status)
	require.Equal(t, "sha256:ab", impact.header.Get("X-Service-Impact"))
	require.Empty(t, impact.header.Get("X-Internal"))
	require.JSONEq(t, `{"detail":"confirm the impact","code":"impact"}`, impact.body)

	panicked := get("job_panic")
	require.Equal(t, http.StatusInternalServerError, panicked.status)
	require.Equal(t, "Internal Server Error", panicked.json(t)["detail"])
	require.NotContains(t, panicked.body, "secret inside")

	broken := get("job_broken")
	require.Equal(t, http.StatusInternalServerError, broken.status)
	require.JSONEq(t, `{"detail":"Internal Server Error"}`, broken.body)
	require.Contains(t, r.log.String(), "encode raw JSON field")

	slow := get("job_slow")
	require.Equal(t, http.StatusServiceUnavailable, slow.status)
	require.NotEmpty(t, slow.header.Get("Retry-After"))

	unbuilt := r.do("GET", "/api/fleets", "", as(userToken)...)
	require.Equal(t, http.StatusNotImplemented, unbuilt.status)
}

func TestInvalidPathsRefusedAsJSON(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	for path, want := range map[string]int{
		"/api/jobs/a%2Fb": 400, "/api/jobs/%2e%2e": 400, "/api/jobs/a%5cb": 400, "/api/jobs/%00": 400, "/api/jobs/": 404, "/api//jobs": 404,
		"/inference/d/v1/..%2f..%2fmetrics": 400, "/inference/d1/v1/../../d2/v1/models": 400, "/inference/d1/v2/models": 404,
	} {
		conn := r.dial()
		_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, userToken)
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, path)
		require.Empty(t, resp.Header.Get("Location"))
		require.Contains(t, string(body), `"detail"`, path)
		require.Equal(t, strings.HasPrefix(path, "/inference"), strings.Contains(string(body), `"error":{`), path)
	}
	require.Empty(t, r.all())
}

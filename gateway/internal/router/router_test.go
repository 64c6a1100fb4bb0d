package router_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func newRouter(tb testing.TB) *router.Router {
	tb.Helper()
	r, err := router.New([]route.Route{
		{Method: "GET", Pattern: "/healthz", Handler: "health"},
		{Method: "GET", Pattern: "/api/jobs", RPC: "List"},
		{Method: "POST", Pattern: "/api/jobs", RPC: "Submit"},
		{Method: "GET", Pattern: "/api/jobs/{job_id}", RPC: "Get"},
		{Method: "GET", Pattern: "/api/jobs/{id}/logs", RPC: "Logs"},
		{Method: "POST", Pattern: "/api/jobs/{job_id}/stop", RPC: "Stop"},
		{Method: "POST", Pattern: "/api/fleets/join", RPC: "Join"},
		{Method: "GET", Pattern: "/api/fleets/{fleet_id}", RPC: "GetFleet"},
		{Method: "POST", Pattern: "/api/fleets/{fleet_id}/join-tokens", RPC: "Mint"},
		{Method: "GET", Pattern: "/api/recipes/{namespace}/{name}", RPC: "Recipe"},
		{Method: "GET", Pattern: "/api/blobs/{key...}", Handler: "blobs"},
		{Method: "PUT", Pattern: "/api/blobs/{key...}", Handler: "blobs"},
		{Method: "*", Pattern: "/inference/{deployment_id}/v1/{rest...}", Handler: "inference"},
		{Method: "*", Pattern: "/api/playground/sessions/{playground_id}/targets/{target}/v1/{rest...}", Handler: "playground"},
	})
	require.NoError(tb, err)
	return r
}

func request(method, target string) *http.Request {
	return httptest.NewRequest(method, target, nil)
}

func TestRouterFind(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		method, target, want string
		values               []string
	}{
		"literal":                {"GET", "/healthz", "health", nil},
		"by method":              {"POST", "/api/jobs", "Submit", nil},
		"dots in the query":      {"GET", "/api/jobs?x=/../", "List", nil},
		"variable":               {"GET", "/api/jobs/job_1", "Get", []string{"job_1"}},
		"colon in a variable":    {"GET", "/api/jobs/job_1:stop", "Get", []string{"job_1:stop"}},
		"encoded character":      {"GET", "/api/jobs/job%5f1", "Get", []string{"job_1"}},
		"under a variable":       {"GET", "/api/jobs/job_1/logs", "Logs", []string{"job_1"}},
		"literal first":          {"POST", "/api/fleets/join", "Join", nil},
		"literal of a sibling":   {"GET", "/api/fleets/join", "GetFleet", []string{"join"}},
		"back from a literal":    {"POST", "/api/fleets/join/join-tokens", "Mint", []string{"join"}},
		"two variables":          {"GET", "/api/recipes/demo/chat-tiny", "Recipe", []string{"demo", "chat-tiny"}},
		"rest":                   {"PUT", "/api/blobs/a/b/c", "blobs", []string{"a/b/c"}},
		"any method":             {"PATCH", "/inference/dep_1/v1/chat/completions", "inference", []string{"dep_1", "chat/completions"}},
		"empty rest":             {"GET", "/inference/dep_1/v1/", "inference", []string{"dep_1", ""}},
		"no rest":                {"GET", "/inference/dep_1/v1", "inference", []string{"dep_1", ""}},
		"trailing slash":         {"POST", "/inference/dep_1/v1/chat/completions/", "inference", []string{"dep_1", "chat/completions/"}},
		"encoded slash":          {"GET", "/inference/dep_1/v1/models/org%2Fname", "inference", []string{"dep_1", "models/org%2Fname"}},
		"encoded percent sign":   {"GET", "/inference/dep_1/v1/a%2525b", "inference", []string{"dep_1", "a%2525b"}},
		"playground":             {"GET", "/api/playground/sessions/pg_1/targets/1/v1/models/org%2Fname/", "playground", []string{"pg_1", "1", "models/org%2Fname/"}},
		"rest of one segment":    {"GET", "/inference/dep_1/v1/models", "inference", []string{"dep_1", "models"}},
		"unicode in a variable":  {"GET", "/api/jobs/%C3%A9", "Get", []string{"é"}},
		"question mark in a var": {"GET", "/api/jobs/a%3Fb", "Get", []string{"a?b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, f := newRouter(t).Find(request(tc.method, tc.target))
			require.Nil(t, f)
			require.Equal(t, tc.want, m.RPC+m.Handler)
			require.Equal(t, tc.values, m.Values)
			require.Len(t, m.Variables(), len(m.Vars))
			for i, name := range m.Vars {
				require.Equal(t, m.Values[i], m.Variables()[name])
			}
		})
	}
}

func TestRouterFindRefusesPaths(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		method, target string
		want           fault.Kind
	}{
		"unknown":                 {"GET", "/nope", fault.Absent},
		"unknown below":           {"GET", "/api/jobs/a/nope", fault.Absent},
		"root":                    {"GET", "/", fault.Absent},
		"prefix of a pattern":     {"GET", "/api", fault.Absent},
		"empty variable":          {"GET", "/api/jobs/", fault.Absent},
		"trailing slash":          {"GET", "/api/jobs/job_1/", fault.Absent},
		"doubled slash":           {"GET", "/api//jobs", fault.Absent},
		"leading doubled slash":   {"GET", "//api/jobs", fault.Absent},
		"doubled slash in rest":   {"GET", "/inference/dep_1/v1//models", fault.Refused},
		"encoded trailing slash":  {"GET", "/inference/dep_1/v1/models%2F", fault.Refused},
		"escape in an id":         {"GET", "/inference/dep%5f1/v1/models", fault.Refused},
		"escape in the prefix":    {"GET", "/%69nference/dep_1/v1/models", fault.Refused},
		"playground":              {"GET", "/api/playground/sessions/pg_1/targets/1/v1/%252e%252e/x", fault.Refused},
		"playground, escaped":     {"GET", "/api/playground/session%73/pg_1/targets/1/v1/models", fault.Refused},
		"playground, escaped v1":  {"GET", "/api/playground/sessions/pg_1/targets/1/%761/models", fault.Refused},
		"playground, prefix":      {"GET", "/api/playground/sessions/pg_1/targets/1/v2/x%2Fy", fault.Refused},
		"absolute form, engine":   {"GET", "http://x/inference/dep_1/v1/models", fault.Refused},
		"other version":           {"GET", "/inference/dep_1/v2/models", fault.Absent},
		"case of a literal":       {"GET", "/API/jobs", fault.Absent},
		"wrong method":            {"DELETE", "/api/jobs", fault.MethodNotAllowed},
		"wrong method, variable":  {"PUT", "/api/jobs/job_1", fault.MethodNotAllowed},
		"trace":                   {"TRACE", "/inference/dep_1/v1/models", fault.Refused},
		"dot segment":             {"GET", "/api/jobs/../jobs", fault.Refused},
		"encoded dot segment":     {"GET", "/api/jobs/%2e%2e", fault.Refused},
		"single dot":              {"GET", "/api/./jobs", fault.Refused},
		"encoded slash":           {"GET", "/api/jobs/a%2Fb", fault.Refused},
		"encoded slash, lower":    {"GET", "/inference/dep_1/v1/..%2f..%2fmetrics", fault.Refused},
		"backslash":               {"GET", "/api/jobs/a%5cb", fault.Refused},
		"NUL":                     {"GET", "/api/jobs/a%00b", fault.Refused},
		"line break":              {"GET", "/api/jobs/a%0d%0ab", fault.Refused},
		"delete":                  {"GET", "/api/jobs/a%7fb", fault.Refused},
		"double encoding":         {"GET", "/api/jobs/%252e%252e", fault.Refused},
		"overlong UTF-8":          {"GET", "/api/jobs/%c0%ae", fault.Refused},
		"absolute form":           {"GET", "http://evil.example/api/jobs", fault.Refused},
		"dot segment in the rest": {"GET", "/inference/d1/v1/../../d2/v1/models", fault.Refused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(tc.method, "/")
			u, err := url.ParseRequestURI(tc.target)
			require.NoError(t, err)
			req.URL = u
			_, f := newRouter(t).Find(req)
			require.NotNil(t, f)
			require.Equal(t, tc.want, f.Kind)
		})
	}
}

func TestMethodErrorAllow(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ method, target, want string }{
		"two rows":     {"DELETE", "/api/jobs", "GET, POST"},
		"two patterns": {"DELETE", "/api/fleets/join", "GET, POST"},
		"rest":         {"POST", "/api/blobs/a/b", "GET, PUT"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, f := newRouter(t).Find(request(tc.method, tc.target))
			require.NotNil(t, f)
			var allow *router.MethodError
			require.True(t, errors.As(f, &allow))
			require.Equal(t, tc.want, allow.Allow())
		})
	}
}

func TestRouterFindConnectAndAsterisk(t *testing.T) {
	t.Parallel()
	_, f := newRouter(t).Find(&http.Request{Method: "CONNECT", URL: &url.URL{Host: "evil.example:443"}})
	require.Equal(t, fault.MethodNotAllowed, f.Kind)
	_, f = newRouter(t).Find(&http.Request{Method: "OPTIONS", URL: &url.URL{Path: "*"}})
	require.Equal(t, fault.Absent, f.Kind)
}

func TestNewRouterRejectsBadPatterns(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"/a/{b...}/c", "/a//b", "/"} {
		_, err := router.New([]route.Route{{Method: "GET", Pattern: pattern}})
		require.Error(t, err, pattern)
	}
}

// FuzzFind checks that every path is either refused or matched, and that the values of a match contain no bytes
// with a special meaning in paths.
func FuzzFind(f *testing.F) {
	r := newRouter(f)
	for _, path := range []string{"/api/jobs/a", "/api/blobs/a/../b", "/inference/x/v1/%2e", "//", "/api/jobs/%252f"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		m, refused := r.Find(&http.Request{Method: "GET", URL: u})
		if refused != nil {
			return
		}
		for i, value := range m.Values {
			require.NotContains(t, value, "\\")
			require.NotContains(t, "/"+value+"/", "/../")
			if m.Vars[i] == "rest" {
				continue // the path of an engine, as it was sent
			}
			require.NotEmpty(t, value)
			require.NotContains(t, value, "%")
			if m.Vars[i] != "key" {
				require.NotContains(t, value, "/")
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	r := newRouter(b)
	req := request("POST", "/inference/dep_01jd5y0000000000000000000/v1/chat/completions")
	b.ReportAllocs()
	for b.Loop() {
		if _, f := r.Find(req); f != nil {
			b.Fatal(f)
		}
	}
}

package proxy

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/inference/internal/routing"
)

func TestRoute(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		deployment, target string
		found, ok          bool
	}{
		"/inference/d/v1/models":         {"d", "/v1/models", true, true},
		"/inference/d/v1":                {"d", "/v1", true, true},
		"/inference/d/v1/a%20b":          {"d", "/v1/a b", true, true},
		"/inference/d/v1/a%2Fb":          {"d", "", true, false},
		"/inference/d/v1/../x":           {"d", "", true, false},
		"/inference/d/v1/%2e%2e":         {"d", "", true, false},
		"/inference/d/v1/%252e":          {"d", "", true, false},
		"/inference/d/v1/a;b":            {"d", "", true, false},
		"/inference/d/v1//a":             {"d", "", true, false},
		"/inference/d/v1/%ff":            {"d", "", true, false},
		"/inference/d/v1/%7f":            {"d", "", true, false},
		"/inference/d/v1/%zz":            {"d", "", true, false},
		"/inference//v1/models":          {"", "", false, false},
		"/inference/d/v10":               {"", "", false, false},
		"/inference/d":                   {"", "", false, false},
		"/inference":                     {"", "", false, false},
		"/api/inference/d/v1":            {"", "", false, false},
		"/inference/d%2fv1/v1/models":    {"d%2fv1", "/v1/models", true, true},
		"/inference/../api/jobs/v1/x":    {"", "", false, false},
		"/INFERENCE/d/v1/models":         {"", "", false, false},
		"/inference/d/v1/models/..hid":   {"d", "/v1/models/..hid", true, true},
		"/inference/d/v1/models/.../...": {"d", "/v1/models/.../...", true, true},
	} {
		deployment, target, found, ok := route(path)
		require.Equal(t, want.found, found, path)
		require.Equal(t, want.ok, ok, path)
		require.Equal(t, want.target, target, path)
		if found {
			require.Equal(t, want.deployment, deployment, path)
		}
	}
}

// FuzzRoute checks that every parser reads a path that route accepts as a path below /v1.
func FuzzRoute(f *testing.F) {
	for _, seed := range []string{"models", "../x", "%2e%2e/x", "a%2fb", "a\\b", "%00", "a//b", "%252e", ";x", "é", "%C3%A9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		_, target, found, ok := route("/inference/d/v1/" + rest)
		if !found || !ok {
			return
		}
		wire := (&url.URL{Path: target}).EscapedPath()
		back, err := url.PathUnescape(wire)
		if err != nil || back != target || !strings.HasPrefix(wire, "/v1/") {
			t.Fatalf("the accepted path %q was sent to the engine as %q", rest, wire)
		}
		lower := strings.ToLower(wire)
		for _, bad := range []string{"/../", "/./", "//", "%2f", "%5c", "%00", "%25", ";", "\\"} {
			if strings.Contains(strings.TrimSuffix(lower, "/")+"/", bad) {
				t.Fatalf("the accepted path %q was sent to the engine as %q", rest, wire)
			}
		}
	})
}

func TestCut(t *testing.T) {
	t.Parallel()
	require.Equal(t, "abc", cut("abc", 3))
	require.Equal(t, "ab…", cut("abcdef", 5), "what is cut is marked")
	require.Equal(t, "a…", cut("aüüü", 5), "a character must not be split")
	require.Equal(t, "ab", cut("a\x00b\xff", 9))
}

func TestBusy_choose(t *testing.T) {
	t.Parallel()
	var b busy
	one, two, three := &routing.Replica{ID: "1"}, &routing.Replica{ID: "2"}, &routing.Replica{ID: "3"}
	require.Empty(t, b.choose(nil))
	require.Equal(t, []*routing.Replica{one}, b.choose([]*routing.Replica{one}))
	b.enter("1")
	for range 100 {
		require.Equal(t, []*routing.Replica{two, one}, b.choose([]*routing.Replica{one, two}))
	}
	b.enter("2")
	b.enter("2")
	firsts := map[string]int{}
	for range 600 {
		order := b.choose([]*routing.Replica{one, two, three})
		require.Len(t, order, 3)
		require.ElementsMatch(t, []*routing.Replica{one, two, three}, order, "each replica must appear once")
		firsts[order[0].ID]++
	}
	require.Zero(t, firsts["2"], "the busiest replica must never be first")
	require.Greater(t, firsts["3"], firsts["1"])
	b.leave("1")
	b.leave("2")
	b.leave("2")
	require.Empty(t, b.open, "an idle replica must have no entry")
}

func TestEngineHeader_trace(t *testing.T) {
	t.Parallel()
	const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got := engineHeader(t.Context(), http.Header{"Traceparent": {theirs}, "Tracestate": {"a=b"}}, "", "req_1")
	require.Equal(t, http.Header{
		"Traceparent": {theirs}, "Tracestate": {"a=b"}, "User-Agent": {""}, "X-Request-Id": {"req_1"},
	}, got, "an engine without a key must get no Authorization header")
	for _, bad := range []string{"", "x", "00-0-0-0", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", strings.ToUpper(theirs)} {
		require.NotContains(t, engineHeader(t.Context(), http.Header{"Traceparent": {bad}}, "k", "r"), "Traceparent", bad)
	}
}

package enginepath_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/enginepath"
)

const target = "/api/playground/sessions/pg_1/targets/2"

// sent returns the URL of a request with this path, as package net/http parses it.
func sent(t *testing.T, path string) *url.URL {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	require.NoError(t, err, path)
	return u
}

func TestRead_targetAsSent(t *testing.T) {
	t.Parallel()
	for _, rest := range []string{
		"/v1", "/v1/", "/v1/models", "/v1/chat/completions/", "/v1/a%20b", "/v1/models/org%2Fname", "/v1/models/org%2fname/", "/v1/100%25", "/v1/a%252Fb",
		"/v1/a%25252525b", "/v1/a%25zz", "/v1/%25", "/v1/%61", "/v1/..hid", "/v1/.../...", "/v1/%C3%A9", "/v1/a!b'(c)*[d]", "/v1/a:b@c=d&e+f,g$h~",
		"/v1/models/" + strings.Repeat("x", 4000), "/v1/%E4%BD%A0%2F%E5%A5%BD", "/v1/a%3Fb%23c", "/v1/v1/v1",
	} {
		for prefix, want := range map[string]enginepath.Path{
			"/inference/dep_1":   {Prefix: "/inference/dep_1", ID: "dep_1", Target: rest},
			"/inference/a;b=c.d": {Prefix: "/inference/a;b=c.d", ID: "a;b=c.d", Target: rest},
			target:               {Prefix: target, ID: "pg_1", Number: "2", Target: rest},
		} {
			got, verdict := enginepath.Read(sent(t, prefix+rest))
			require.Equal(t, enginepath.Good, verdict, prefix+rest)
			require.Equal(t, want, got)
			require.Equal(t, rest+"?a=%2F", got.At(sent(t, "/x?a=%2F")).RequestURI())
		}
	}
	got, _ := enginepath.Read(sent(t, "/inference/dep_1/v1/a|b/\"c\"/<é>%2f{d}?"))
	require.Equal(t, "/v1/a%7Cb/%22c%22/%3C%C3%A9%3E%2f%7Bd%7D", got.Target, "only bytes that a URL must not contain are escaped")
}

func TestRead_badPath(t *testing.T) {
	t.Parallel()
	for _, tail := range []string{
		"..", ".", "../x", "./x", "a/../b", "a/..", "%2e", "%2e%2e", ".%2E/x", "%252e%252e/x", "%25252e%25252e/x", "%2525252e", "%25%32%65", "%%32e", "%2%65",
		"a%2F..%2Fb", "a%2f.", "..%2f..%2fmetrics", "%2e%2e%2fx", "a%252f..%252fb", "/", "//", "/a", "a//b", "a//", "a%2F", "a%2F/", "a%252F", "%2F", "%2Fa",
		"a%2F%2Fb", "a/%2Fb", "a%5cb", "a%255Cb", `a\b`, "a;b", "a%3Bb", "..;/x", "a%253bb", "a%00b", "%0d%0aX", "%0a", "%09", "%1f", "%7f", "%2500",
		"%ff", "%c0%ae%c0%ae/x", "%e0%80%af", "%25ff", "a\xff", "%25252525252e", "a%252525252520b", strings.Repeat("x", 5000),
	} {
		for _, prefix := range []string{"/inference/dep_1/v1/", target + "/v1/"} {
			u, err := url.ParseRequestURI(prefix + tail)
			if err != nil {
				continue // net/http refuses it
			}
			_, verdict := enginepath.Read(u)
			require.Equal(t, enginepath.Bad, verdict, "%q", prefix+tail)
		}
	}
}

func TestRead_prefix(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]enginepath.Verdict{
		"/inference": enginepath.Unknown, "/inference/": enginepath.Unknown, "/inference/d": enginepath.Unknown, "/inference/d/": enginepath.Unknown,
		"/inference/d/v2/models": enginepath.Unknown, "/inference/d/V1/models": enginepath.Unknown, "/inference/d/v1x": enginepath.Unknown,
		"/inference/d/v10/models": enginepath.Unknown, "/inference/d/metrics": enginepath.Unknown, "/inference/v1/d": enginepath.Unknown,
		"/inference//": enginepath.Bad, "/inference//v1/models": enginepath.Bad, "/inference/d//v1/models": enginepath.Bad, "/inference///": enginepath.Bad,
		"/inference/../api/jobs": enginepath.Bad, "/inference/../v1/x": enginepath.Bad, "/inference/./v1/x": enginepath.Bad,
		"/inference/d/../e/v1/x": enginepath.Bad, "/inference/d/v2/%2e%2e": enginepath.Bad, "/inference/d/v2//x": enginepath.Bad,
		"/inference/a%2Fb/v1/x": enginepath.Bad, "/inference/%64/v1/x": enginepath.Bad, "/inference/d/%76%31/x": enginepath.Bad,
		"/inference/d/v1%2fmodels": enginepath.Bad, "/inference/d%2fv1/v1/x": enginepath.Bad, "/inference/d\x80/v1/x": enginepath.Bad,
		`/inference/d\e/v1/x`: enginepath.Bad, "/%69nference/d/v1/x": enginepath.Bad, "/inference%2Fd/v1/x": enginepath.Bad,
		"/Inference/d/v1/x": enginepath.Elsewhere, "/inferences/d/v1/x": enginepath.Elsewhere, "/": enginepath.Elsewhere, "/api/jobs": enginepath.Elsewhere,
		"/api/inference/d/v1/x": enginepath.Elsewhere, "//inference/d/v1/x": enginepath.Elsewhere, "/api/../inference/d/v1/x": enginepath.Elsewhere,
		"/api/playground/sessions/s": enginepath.Elsewhere, "/api/playground/sessions/s/transcript": enginepath.Elsewhere,
		"/api/playground/sessions/s/targets/1": enginepath.Elsewhere, "/api/playground/sessions/s/targets/1/v2/x": enginepath.Elsewhere,
		"/api/playground/sessions/s/targets//v1/x": enginepath.Elsewhere, "/api/playground/sessions//targets/1/v1/x": enginepath.Elsewhere,
		"/api/playground/sessions/a/b/targets/1/v1/x": enginepath.Elsewhere, "/api/playground/sessions/%73/targets/1/v1/x": enginepath.Bad,
		"/api/playground/session%73/s/targets/1/v1/x": enginepath.Bad, "/api/playground%2Fsessions/s/targets/1/v1/x": enginepath.Bad,
		"/%61pi/playground/sessions/s/targets/1/v1/x": enginepath.Bad, "/api/playground/sessions/s/targets/1/%761/x": enginepath.Bad,
		"/api/playground/sessions/s/target%73/1/v1/x": enginepath.Bad, "/api/playground/sessions/s%2Ftargets/1/v1/x": enginepath.Bad,
		"/api/playground/sessions/s/targets/1/v1%2Fx": enginepath.Bad, "/api/playground/sessions/s/targets/1%2Fv1/x": enginepath.Bad,
		"/api/playground/sessions/s/%75rns": enginepath.Elsewhere,
		"/api/playground/session%73/s":      enginepath.Elsewhere, "/api/playground/sessions/s/targets/%31": enginepath.Elsewhere,
		"/api/playground/sessions/../targets/1/v1/x": enginepath.Bad, "/api/playground/sessions/s/targets/%31/v1/x": enginepath.Bad,
	} {
		got, verdict := enginepath.Read(sent(t, path))
		require.Equal(t, want, verdict, path)
		require.Equal(t, enginepath.Path{}, got, path)
	}
}

// FuzzRead checks that an accepted path is sent on unchanged, and that no number of decodings makes it lead elsewhere.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"models", "../x", "%2e%2e/x", "a%2fb", "a\\b", "%00", "a//b", "%252e", ";x", "é", "%C3%A9", "%%32e", "a/", "a%2f/", "%25%32%66.."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		u, err := url.ParseRequestURI("/inference/d/v1/" + rest)
		if err != nil || u.RawQuery != "" || u.ForceQuery {
			return
		}
		p, verdict := enginepath.Read(u)
		if verdict != enginepath.Good {
			return
		}
		wire := p.At(&url.URL{}).RequestURI()
		if wire != p.Target || wire != enginepath.Sent(u)[len("/inference/d"):] {
			t.Fatalf("the accepted path %q is sent to the engine as %q", rest, wire)
		}
		again, err := url.ParseRequestURI("/inference/d" + wire)
		if err != nil {
			t.Fatalf("the accepted path %q is sent as %q: %v", rest, wire, err)
		}
		if p2, verdict := enginepath.Read(again); verdict != enginepath.Good || p2 != p {
			t.Fatalf("the accepted path %q is read as %v behind another proxy", rest, p2)
		}
		for form, next := wire, ""; ; form = next {
			for _, bad := range []string{"/../", "/./", "//", "\\", ";", "\x00", "\r", "\n"} {
				if strings.Contains(strings.TrimSuffix(form, "/")+"/", bad) {
					t.Fatalf("a form of the accepted path %q contains %q: %q", rest, bad, form)
				}
			}
			if next, err = url.PathUnescape(form); err != nil || next == form {
				return
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	u, err := url.ParseRequestURI("/inference/dep_01jd5y0000000000000000000/v1/chat/completions")
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, verdict := enginepath.Read(u); verdict != enginepath.Good {
			b.Fatal(verdict)
		}
	}
}

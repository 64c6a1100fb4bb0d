package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// credentials returns the names of headers that the proxy must not pass on: those with an identity or an address,
// hop-by-hop headers and some others.
func credentials() []string {
	return []string{
		"Authorization", "Proxy-Authorization", "Cookie", "X-Service-Token", "X-Api-Key", "Api-Key", "X-Service-Caller", "X-Service-Session",
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-User", "Forwarded", "X-Real-Ip", "Via", "True-Client-Ip",
		"Grpc-Metadata-X-User-Id", "Grpc-Metadata-Authorization", "X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override", "Host",
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Expect", "Content-Length",
		"Origin", "Referer", "Range", "If-None-Match", "Baggage", "X-Request-Id", "X_Forwarded_For", "Authorization ", "authorization",
	}
}

func TestEngineHeader_listedNamesOnly(t *testing.T) {
	t.Parallel()
	in := http.Header{}
	for _, name := range credentials() {
		in[name] = []string{"secret"}
	}
	require.Equal(t, http.Header{
		"User-Agent": {""}, "Authorization": {"Bearer engines-own"}, "X-Request-Id": {"req_1"},
	}, engineHeader(t.Context(), in, "engines-own", "req_1"))
	// A listed header is passed with all of its values.
	in = http.Header{"Accept": {"a/b", "c/d"}, "Openai-Beta": {""}, "Content-Type": {"application/json"}}
	got := engineHeader(t.Context(), in, "", "req_1")
	require.Equal(t, []string{"a/b", "c/d"}, got["Accept"])
	require.Equal(t, []string{""}, got["Openai-Beta"])
}

func TestEngineHeader_connectionHeader(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"single":         {"Accept"},
		"several":        {"close, Accept, X-Other"},
		"other case":     {"aCCEPT"},
		"several lines":  {"close", "accept"},
		"without spaces": {"close,accept,x"},
		"with tabs":      {"close,\taccept\t"},
	} {
		got := engineHeader(t.Context(), http.Header{"Accept": {"a/b"}, "Content-Type": {"x/y"}, "Connection": lines}, "k", "req_1")
		require.NotContains(t, got, "Accept", name)
		require.Contains(t, got, "Content-Type", name)
		require.NotContains(t, got, "Connection", name)
	}
	got := engineHeader(t.Context(), http.Header{"Connection": {"Authorization, X-Request-Id, User-Agent"}, "User-Agent": {"me"}}, "k", "req_1")
	require.Equal(t, http.Header{"Authorization": {"Bearer k"}, "X-Request-Id": {"req_1"}, "User-Agent": {""}}, got,
		"the caller must not be able to remove the proxy's own headers")
}

// FuzzEngineHeader checks that the engine gets only listed headers and those that the proxy adds. The engine must get
// its own key and never the caller's credential.
func FuzzEngineHeader(f *testing.F) {
	f.Add("Authorization", "Bearer secret", "close")
	f.Add("accept", "a/b", "Accept")
	f.Add("X-Stainless-Lang", "x", "x-stainless-lang, ,")
	f.Add("Content-Type", "secret\r\nX: y", "\x00")
	f.Fuzz(func(t *testing.T, name, value, connection string) {
		in := http.Header{name: {value}, "Connection": {connection}, "Authorization": {"Bearer dtk_secret"}, "Cookie": {"secret"}}
		out := engineHeader(t.Context(), in, "key", "req_1")
		for got, values := range out {
			own := got == "Authorization" || got == "X-Request-Id" || got == "Traceparent" || got == "Tracestate"
			if !own && !toEngine(got) {
				t.Fatalf("header %q was passed to the engine", got)
			}
			if strings.Contains(strings.Join(values, ""), "dtk_secret") {
				t.Fatalf("the caller's credential was passed to the engine in %q", got)
			}
		}
		if key := out["Authorization"]; len(key) != 1 || key[0] != "Bearer key" {
			t.Fatalf("the engine got the key %q", key)
		}
	})
}

func TestCallerHeader_listedNamesOnly(t *testing.T) {
	t.Parallel()
	in := http.Header{}
	for _, name := range append(credentials(), "Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Alt-Svc", "Strict-Transport-Security", "Location",
		"Access-Control-Allow-Origin", "Service-Worker-Allowed", "Content-Disposition", "Link", "Refresh", "Server", "X-Powered-By", "Www-Authenticate",
		"Nel", "Report-To", "Permissions-Policy", "Cross-Origin-Opener-Policy", "Sourcemap", "X-Frame-Options", "Openai") {
		in[name] = []string{"evil"}
	}
	delete(in, "Content-Length")
	out := http.Header{}
	callerHeader(out, in, "req_1")
	require.Equal(t, http.Header{
		"Content-Type": nil, "X-Request-Id": {"req_1"}, "X-Content-Type-Options": {"nosniff"}, "Content-Security-Policy": {"sandbox; default-src 'none'"},
	}, out)
}

// A response belongs to one caller. No shared cache may store it, whatever Cache-Control the engine sends.
func TestCallerHeader_cachingIsPrivate(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"public":                             "private",
		"Public, max-age=60":                 "private, max-age=60",
		"s-maxage=60, proxy-revalidate":      "private",
		"max-age=60, must-revalidate":        "private, max-age=60, must-revalidate",
		"private":                            "private",
		`private="Set-Cookie", public = yes`: "private",
		"no-store":                           "no-store",
		"no-cache":                           "private, no-cache",
		"":                                   "private",
	} {
		out := http.Header{}
		callerHeader(out, http.Header{"Content-Type": {"text/plain"}, "Cache-Control": {given}}, "req_1")
		require.Equal(t, []string{want}, out["Cache-Control"], given)
	}
	out := http.Header{}
	callerHeader(out, http.Header{"Cache-Control": {"max-age=1", "public"}}, "req_1")
	require.Equal(t, []string{"private, max-age=1"}, out["Cache-Control"])
	trailer := http.Header{}
	callerTrailer(trailer, http.Header{"Cache-Control": {"public"}})
	require.Empty(t, trailer)
}

func TestCallerHeader_stream(t *testing.T) {
	t.Parallel()
	for kind, stream := range map[string]bool{
		"text/event-stream": true, "text/event-stream; charset=utf-8": true, "Text/Event-Stream": true,
		"application/json": false, "": false, "text/plain; x=text/event-stream": false,
	} {
		out := http.Header{}
		callerHeader(out, http.Header{"Content-Type": {kind}}, "req_1")
		require.Equal(t, stream, out.Get("X-Accel-Buffering") == "no", kind)
		require.Equal(t, stream, out.Get("Cache-Control") == "no-cache", kind)
		out = http.Header{}
		callerHeader(out, http.Header{"Content-Type": {kind}, "Cache-Control": {"private"}}, "req_1")
		require.Equal(t, []string{"private"}, out["Cache-Control"], "the engine's Cache-Control must be kept")
	}
}

func TestTrailersFiltered(t *testing.T) {
	t.Parallel()
	const streamed = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n" +
		"Trailer: Openai-Processing-Ms, Set-Cookie, X-Evil, Content-Type\r\n\r\n" +
		"9\r\ndata: a\n\n\r\n0\r\nOpenai-Processing-Ms: 12\r\nSet-Cookie: a=b\r\nX-Evil: 1\r\nContent-Type: text/html\r\n\r\n"
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, replies(streamed))))
	s := r.serve()
	for range 2 { // the second call reuses the connection
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/inference/"+dep("a")+"/v1/x", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+tok.text)
		resp, err := s.Client().Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, "data: a\n\n", string(body))
		require.Equal(t, http.Header{"Openai-Processing-Ms": {"12"}}, resp.Trailer)
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	}
}

func TestTruncatedStreamHasNoTrailer(t *testing.T) {
	t.Parallel()
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, func(c net.Conn, in *bufio.Reader) {
		if req, err := http.ReadRequest(in); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Etag\r\n\r\n1\r\na\r\n0\r\nEtag: \"x\"\r\n") // the final CRLF is missing
		}
	})))
	_, _, err := r.call(r.serve(), tok.text, "{}")
	require.Error(t, err, "an incomplete trailer must not end the response cleanly")
	require.Equal(t, "upstream_truncated", r.recorder.recorded(t, 1)[0].Outcome)
}

package proxy

import (
	"bufio"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// held returns the names of headers that heldFromCaller must hold back.
func held() []string {
	return []string{
		"Authorization", "Proxy-Authorization", "Cookie", "X-Service-Token", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Auth-Token", "X-Service-Caller",
		"X-Service-Session", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-User", "Forwarded", "X-Real-Ip", "Via",
		"True-Client-Ip", "Client-Ip", "X-Client-Ip", "Cf-Connecting-Ip", "X-Envoy-Peer-Metadata", "Grpc-Metadata-X-User-Id", "Grpc-Metadata-Authorization",
		"X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "Host", "Connection", "Keep-Alive",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Expect", "Content-Length", "Origin", "Referer", "Baggage",
		"X-Request-Id", "X_Forwarded_For", "Authorization ", "authorization", "x-api-key", "X-API-Key", "", "X Y", "Ünder", "Sec-Websocket-Key",
	}
}

func TestEngineHeader_heldNames(t *testing.T) {
	t.Parallel()
	in := http.Header{}
	for _, name := range held() {
		in[name] = []string{"secret"}
	}
	require.Equal(t, http.Header{
		"Authorization": {"Bearer engines-own"}, "X-Request-Id": {"req_1"},
	}, engineHeader(t.Context(), httprelay.HeaderOf(in), "engines-own", "req_1").Map())
	// Any other header is passed with all of its values.
	in = http.Header{"Accept": {"a/b", "c/d"}, "Openai-Beta": {""}, "Content-Type": {"application/json"}, "Anthropic-Version": {"1"}, "Range": {"bytes=0-"}, "X-Own": {"a"}}
	got := engineHeader(t.Context(), httprelay.HeaderOf(in), "", "req_1").Map()
	in["X-Request-Id"] = []string{"req_1"}
	require.Equal(t, in, got)
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
		got := engineHeader(t.Context(), httprelay.HeaderOf(http.Header{"Accept": {"a/b"}, "Content-Type": {"x/y"}, "Connection": lines}), "k", "req_1").Map()
		require.NotContains(t, got, "Accept", name)
		require.Contains(t, got, "Content-Type", name)
		require.NotContains(t, got, "Connection", name)
	}
	got := engineHeader(t.Context(), httprelay.HeaderOf(http.Header{"Connection": {"Authorization, X-Request-Id, User-Agent"}, "User-Agent": {"me"}}), "k", "req_1").Map()
	require.Equal(t, http.Header{"Authorization": {"Bearer k"}, "X-Request-Id": {"req_1"}}, got,
		"the caller must not be able to remove the proxy's own headers")
}

// FuzzEngineHeader checks that the engine gets no header that is held back, and those that the proxy adds. The engine must
// get its own key and never the caller's credential.
func FuzzEngineHeader(f *testing.F) {
	f.Add("Authorization", "Bearer secret", "close")
	f.Add("accept", "a/b", "Accept")
	f.Add("X-Own", "key.dtk_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno", "")
	f.Add("X-Stainless-Lang", "x", "x-stainless-lang, ,")
	f.Add("Content-Type", "secret\r\nX: y", "\x00")
	const theirs = "dtk_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno"
	f.Fuzz(func(t *testing.T, name, value, connection string) {
		in := http.Header{name: {value}, "Connection": {connection}, "Authorization": {"Bearer " + theirs}, "Cookie": {"secret"}}
		out := engineHeader(t.Context(), httprelay.HeaderOf(in), "key", "req_1").Map()
		for got, values := range out {
			own := got == "Authorization" || got == "X-Request-Id" || got == "Traceparent" || got == "Tracestate"
			if !own && heldFromCaller(got) {
				t.Fatalf("header %q was passed to the engine", got)
			}
			if strings.Contains(strings.Join(values, ""), theirs) {
				t.Fatalf("the caller's credential was passed to the engine in %q", got)
			}
		}
		if key := out["Authorization"]; len(key) != 1 || key[0] != "Bearer key" {
			t.Fatalf("the engine got the key %q", key)
		}
	})
}

func TestCallerHeader_heldNames(t *testing.T) {
	t.Parallel()
	in := http.Header{}
	for _, name := range []string{
		"Set-Cookie", "Set-Cookie2", "Set-Login", "Clear-Site-Data", "Alt-Svc", "Strict-Transport-Security", "Location", "Access-Control-Allow-Origin",
		"Service-Worker-Allowed", "Refresh", "Www-Authenticate", "Nel", "Report-To", "Permissions-Policy", "Cross-Origin-Opener-Policy", "Sourcemap",
		"X-Frame-Options", "Proxy-Authenticate", "X-Service-Caller", "X-Accel-Redirect", "X-Request-Id", "Expires", "Pragma", "Content-Location",
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "set-cookie", "SET-COOKIE", "Set-Cookie ", "", "Ünder",
	} {
		in[name] = []string{"evil"}
	}
	out := callerHeader(httprelay.HeaderOf(in), redirect{}, "req_1").Map()
	require.Equal(t, http.Header{
		"X-Request-Id": {"req_1"}, "X-Content-Type-Options": {"nosniff"}, "Content-Security-Policy": {"sandbox; default-src 'none'"},
		"Cache-Control": {"private"},
	}, out)
	in = http.Header{"Connection": {"close, x-own", "Retry-After-Ms"}, "X-Own": {"a"}, "Retry-After-Ms": {"1"}, "X-Kept": {"a", "b"}}
	out = callerHeader(httprelay.HeaderOf(in), redirect{}, "req_1").Map()
	require.Equal(t, []string{"a", "b"}, out["X-Kept"])
	require.NotContains(t, out, "X-Own")
	require.NotContains(t, out, "Retry-After-Ms")
}

// documentedNames returns the names in the table below a heading of the reference, in canonical form.
func documentedNames(t *testing.T, heading string) (names []string) {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/reference/inference.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## "+heading+"\n")
	require.True(t, ok, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.HasPrefix(line, "|---") {
			continue
		}
		for i, word := range strings.Split(cells[1], "`") {
			if i%2 == 1 {
				names = append(names, http.CanonicalHeaderKey(word))
			}
		}
	}
	slices.Sort(names)
	return names
}

// listedNames returns the names and the prefixes, marked by an asterisk, that a function of held.go lists.
func listedNames(t *testing.T, function string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(gotoken.NewFileSet(), "held.go", nil, 0)
	require.NoError(t, err)
	literal := func(n ast.Expr, end string) {
		if lit, ok := n.(*ast.BasicLit); ok {
			name, err := strconv.Unquote(lit.Value)
			require.NoError(t, err)
			names = append(names, name+end)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if ok && f.Name.Name != function {
			return false
		}
		switch n := n.(type) {
		case *ast.CaseClause:
			for _, e := range n.List {
				literal(e, "")
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "hasPrefix" {
				for _, e := range n.Args {
					literal(e, "*")
				}
			}
		}
		return true
	})
	slices.Sort(names)
	return names
}

func TestHeldHeadersDocumented(t *testing.T) {
	t.Parallel()
	require.Equal(t, listedNames(t, "heldFromCaller"), documentedNames(t, "Headers to the engine"))
	require.Equal(t, listedNames(t, "heldFromEngine"), documentedNames(t, "Headers from the engine"))
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
		"no-store":                           "private, no-store",
		"must-understand, no-store":          "private, must-understand, no-store",
		"no-cache":                           "private, no-cache",
		"":                                   "private",
	} {
		out := callerHeader(httprelay.HeaderOf(http.Header{"Content-Type": {"text/plain"}, "Cache-Control": {given}}), redirect{}, "req_1").Map()
		require.Equal(t, []string{want}, out["Cache-Control"], given)
	}
	out := callerHeader(httprelay.HeaderOf(http.Header{"Cache-Control": {"max-age=1", "public"}}), redirect{}, "req_1").Map()
	require.Equal(t, []string{"private, max-age=1"}, out["Cache-Control"])
	require.Empty(t, partHeader(httprelay.Header{{Name: "Cache-Control", Value: "public"}}, nil, redirect{}))
}

func TestCallerHeader_stream(t *testing.T) {
	t.Parallel()
	for kind, stream := range map[string]bool{
		"text/event-stream": true, "text/event-stream; charset=utf-8": true, "Text/Event-Stream": true,
		"application/json": false, "": false, "text/plain; x=text/event-stream": false,
	} {
		out := callerHeader(httprelay.HeaderOf(http.Header{"Content-Type": {kind}}), redirect{}, "req_1").Map()
		require.Equal(t, stream, out.Get("X-Accel-Buffering") == "no", kind)
		require.Equal(t, stream, out.Get("Cache-Control") == "private, no-cache", kind)
		out = callerHeader(httprelay.HeaderOf(http.Header{"Content-Type": {kind}, "Cache-Control": {"private"}}), redirect{}, "req_1").Map()
		require.Equal(t, []string{"private"}, out["Cache-Control"], "the engine's Cache-Control must be kept")
	}
}

func TestTrailersFiltered(t *testing.T) {
	t.Parallel()
	const streamed = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n" +
		"Trailer: Openai-Processing-Ms, Set-Cookie, X-Own, Content-Type\r\n\r\n" +
		"9\r\ndata: a\n\n\r\n0\r\nOpenai-Processing-Ms: 12\r\nSet-Cookie: a=b\r\nX-Own: 1\r\nContent-Type: text/html\r\n\r\n"
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
		require.Equal(t, http.Header{"Openai-Processing-Ms": {"12"}, "X-Own": {"1"}}, resp.Trailer)
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

package inference_test

import (
	"bufio"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// raw sends the given bytes over a new connection and reads one response.
func raw(t *testing.T, r *harness, bytes string) reply {
	t.Helper()
	c, err := net.Dial("tcp", r.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetDeadline(time.Now().Add(limit)))
	_, err = c.Write([]byte(bytes))
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil) //nolint:bodyclose // the test closes it
	require.NoError(t, err, "%q", bytes)
	return reply{resp}
}

// escapingPaths returns paths that try to leave /v1 or are not below /v1.
func escapingPaths() []string {
	var out []string
	for _, dots := range []string{"..", "%2e%2e", ".%2e", "%2E.", "%252e%252e", ".", "%2e"} {
		for _, slash := range []string{"/", "%2f", "%2F", "\\", "%5c", "%5C", "//", "/;/", "%252f", "%255c"} {
			out = append(out, "/v1/"+dots+slash+"metrics", "/v1/chat/"+dots+slash+dots+slash+"metrics", "/v1"+slash+dots+slash+"admin")
		}
	}
	for _, odd := range []string{
		"%00", "%0d%0a", "%0a", "%0d", "%09", "%7f", "%1f", "%c0%ae%c0%ae/x", "%ff", "%e0%80%af", "%", "%zz", "%2", ";a=b", "a;b/../x",
		"//", "//x", "x//y", "..;/x", "%3b/..", "%u002e", "a%00b", "a%5Cb",
	} {
		out = append(out, "/v1/"+odd, "/v1/a/"+odd, "/v1/a"+odd+"/b", "/v1/a/"+odd+"/../b")
	}
	return append(out, "", "/", "/v1x/models", "/V1/models", "/v2/models", "/metrics", "/../v1/models", "/%76%31/models", "/.%2e/v1", "/v1%2fmodels")
}

func TestHostilePathsStayBelowV1(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "", "reached")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	corpus := escapingPaths()
	require.Greater(t, len(corpus), 300)
	reached := 0
	for _, path := range corpus {
		resp := raw(t, r, "GET /inference/"+deploymentA+path+" HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "+w.good.text+"\r\n\r\n")
		require.Contains(t, []int{200, 400, 404}, resp.StatusCode, path)
		require.Empty(t, resp.Header.Get("Location"), path)
		if resp.StatusCode == 200 {
			reached++
		}
	}
	for _, form := range []string{"http://evil/inference/" + deploymentA + "/v1/../metrics", "*", "/inference", "/inference/", "//inference/" + deploymentA + "/v1/x"} {
		resp := raw(t, r, "GET "+form+" HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "+w.good.text+"\r\n\r\n")
		require.Contains(t, []int{400, 404}, resp.StatusCode, form)
	}
	require.Len(t, e.seen(), reached)
	for _, head := range e.seen() {
		target := strings.Fields(head)[1]
		for form, next := target, ""; ; form = next {
			require.Regexp(t, `^/v1(/[0-9A-Za-z.%_-]+)*/?$`, form)
			require.NotContains(t, strings.Split(form, "/"), "..", target)
			require.NotContains(t, strings.Split(form, "/"), ".", target)
			var err error
			if next, err = url.PathUnescape(form); err != nil || next == form {
				break
			}
		}
	}
}

func TestValidPathsUnchanged(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "", "reached")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	want := []string{
		"/v1/models", "/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions?a=1&b=%2F..%2f", "/v1/models/org:name",
		"/v1/models/caf%C3%A9", "/v1/a%20b", "/v1/files/x.y-z_~", "/v1/.hidden/..more", "/v1/models/org%2Fname", "/v1/models/org%2fname",
		"/v1/100%25", "/v1/a%252Fb", "/v1/a%2525b", "/v1/%E4%BD%A0%2F%E5%A5%BD", "/v1/chat/completions/", "/v1/models/org%2Fname/?a=%2F", "/v1/a!b'(c)*[d]",
		"/v1/a%21b", "/v1/%61", "/v1/a%3Fb%23c", "/v1/models?", "/v1/a%25zz", "/v1/a+b", "/v1/a,b:c@d=e&f$g",
	}
	prefixes, caller := r.engineRoutes(e)
	for _, prefix := range prefixes {
		from := len(e.seen())
		for _, path := range want {
			req := r.request(http.MethodGet, prefix+path, w.good.text, "")
			req.Header.Set("X-Service-Caller", caller)
			require.Equal(t, "reached", text(t, r.send(req)), prefix+path)
		}
		var got []string
		for _, head := range e.seen()[from:] {
			got = append(got, strings.Fields(head)[1])
		}
		require.Equal(t, want, got)
	}
}

func TestRequestSmuggling(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "", "one")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	start := "POST /inference/" + deploymentA + chat + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + w.good.text + "\r\n"
	smuggled := "GET /v1/smuggled HTTP/1.1\r\nHost: engine\r\n\r\n"
	for name, rest := range map[string]string{
		"length and chunked":  "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"two lengths":         "Content-Length: 4\r\nContent-Length: 90\r\n\r\nabcd" + smuggled,
		"unknown encoding":    "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
		"two encodings":       "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled,
		"space in the name":   "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"folded line":         "X-A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + smuggled,
		"negative length":     "Content-Length: -1\r\n\r\n" + smuggled,
		"invalid chunk size":  "Transfer-Encoding: chunked\r\n\r\nZZ\r\n" + smuggled,
		"chunk size overflow": "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n" + smuggled,
	} {
		resp := raw(t, r, start+rest)
		_ = resp.Body.Close()
		require.Contains(t, []int{200, 400, 404, 501}, resp.StatusCode, name)
	}
	for _, head := range e.seen() {
		require.NotContains(t, head, "smuggled")
	}
}

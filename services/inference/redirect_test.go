package inference_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// redirects returns a script that responds to each request with a 103, a 307 and a trailer, which all have the Location
// in the parameter "to" of the query.
func redirects() script {
	return func(e *engine, c net.Conn, in *bufio.Reader) {
		for {
			head, _, ok := e.read(in)
			if !ok {
				return
			}
			_, query, _ := strings.Cut(strings.Fields(head)[1], "?")
			values, err := url.ParseQuery(query)
			if err != nil {
				return
			}
			location := "Location: " + values.Get("to") + "\r\n"
			if _, err = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n"+location+"\r\nHTTP/1.1 307 Temporary Redirect\r\n"+location+
				"Transfer-Encoding: chunked\r\n\r\n5\r\nmoved\r\n0\r\n"+location+"\r\n"); err != nil {
				return
			}
		}
	}
}

func TestRedirectsStayBelowCallersPrefix(t *testing.T) {
	t.Parallel()
	e := newEngine(t, redirects())
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	prefixes, caller := r.engineRoutes(e)
	client := *r.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for to, want := range map[string]string{
		"/v1/models":                         "/v1/models",
		"/v1":                                "/v1",
		"/v1/a/":                             "/v1/a/",
		"models":                             "/v1/files/x/models",
		"../models":                          "/v1/files/models",
		"./":                                 "/v1/files/x/",
		"?page=2":                            "/v1/files/x/list?page=2",
		"http://ADDR/v1/m?x=%2F..%2f#part":   "/v1/m?x=%2F..%2f#part",
		"HTTP://ADDR/v1/a":                   "/v1/a",
		"https://ADDR/v1/a":                  "/v1/a",
		"//ADDR/v1/a":                        "/v1/a",
		"/v1/models/org%2Fname":              "/v1/models/org%2Fname",
		"/v1/a%25b":                          "/v1/a%25b",
		"/v1/files/../models":                "/v1/models",
		"https://evil.example/v1/models":     "",
		"//evil.example/v1/models":           "",
		"http://ADDR.evil.example/v1/a":      "",
		"http://ADDR@evil.example/v1/a":      "",
		"http://user:word@ADDR/v1/a":         "",
		"http://127.0.0.1:1/v1/a":            "",
		"http:///v1/a":                       "",
		"http:v1/a":                          "",
		"ftp://ADDR/v1/a":                    "",
		"javascript:alert(1)":                "",
		"data:text/html,x":                   "",
		"/":                                  "",
		"/admin":                             "",
		"/V1/models":                         "",
		"/v1x":                               "",
		"/v1/../admin":                       "",
		"../../../admin":                     "",
		"/v1/%2e%2e/admin":                   "",
		"/v1/%252e%252e/admin":               "",
		"/v1/a%2F..%2Fb":                     "",
		"/v1//a":                             "",
		"/v1/a;b":                            "",
		"/v1/a%00":                           "",
		"/v1/a%5cb":                          "",
		`/\evil.example/v1/a`:                "",
		`\\evil.example\v1\a`:                "",
		"/v1/a?next=http://ADDR/v1/b":        "",
		"/v1/a?next=http%3A%2F%2FADDR%2Fv1b": "",
		"/v1/a#ADDR":                         "",
		"http://%zz/":                        "",
		"":                                   "",
	} {
		for _, prefix := range prefixes {
			location := strings.ReplaceAll(to, "ADDR", e.addr)
			req := r.request(http.MethodGet, prefix+"/v1/files/x/list?to="+url.QueryEscape(location), w.good.text, "")
			req.Header.Set("X-Service-Caller", caller)
			resp := send(t, &client, req)
			require.Equal(t, "moved", text(t, resp))
			require.Equal(t, http.StatusTemporaryRedirect, resp.StatusCode)
			if want == "" {
				require.NotContains(t, resp.Header, "Location", location)
			} else {
				require.Equal(t, []string{prefix + want}, resp.Header["Location"], location)
			}
			require.NotContains(t, resp.Trailer, "Location", location)
			require.NotContains(t, dump(resp.Header)+dump(resp.Trailer), e.addr, location)
		}
	}
}

// dump returns a header as text.
func dump(h http.Header) string {
	var b strings.Builder
	_ = h.Write(&b)
	return b.String()
}

func TestSecondLocationWithheld(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("201 Created", "", "made", "Location: /v1/files/1", "Location: /v1/files/2")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	resp := r.do(http.MethodPost, "/inference/"+deploymentA+"/v1/files", w.good.text, "{}")
	require.Equal(t, "made", text(t, resp))
	require.NotContains(t, resp.Header, "Location")
}

// links returns a script that responds to each request with a 103, a 200 and a trailer, which all have the Link.
func links(link string) script {
	return func(e *engine, c net.Conn, in *bufio.Reader) {
		line := "Link: " + strings.ReplaceAll(link, "ADDR", e.addr) + "\r\n"
		if _, _, ok := e.read(in); ok {
			_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n"+line+"\r\nHTTP/1.1 200 OK\r\n"+line+"Transfer-Encoding: chunked\r\n\r\n0\r\n"+line+"\r\n")
		}
	}
}

func TestLinkWithAddressOfEngineWithheld(t *testing.T) {
	t.Parallel()
	for link, want := range map[string][]string{"</v1/models?page=2>; rel=next": {"</v1/models?page=2>; rel=next"}, "<http://ADDR/v1/models?page=2>; rel=next": nil} {
		e := newEngine(t, links(link))
		r, w := open(t), newDeploymentStates(t, e)
		r.ready(w.deployments()...)
		var early http.Header
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			early = http.Header(h)
			return nil
		}})
		resp := r.send(r.request(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "").WithContext(ctx))
		_ = text(t, resp)
		require.NotNil(t, early)
		for part, h := range map[string]http.Header{"103": early, "head": resp.Header, "trailer": resp.Trailer} {
			require.Equal(t, want, h["Link"], part)
		}
	}
}

func TestRedirectedClientReachesTheEngineAgain(t *testing.T) {
	t.Parallel()
	e := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		for {
			head, body, ok := e.read(in)
			if !ok {
				return
			}
			answer := httpResponse("307 Temporary Redirect", "", "", "Location: http://"+e.addr+"/v1/chat/completions")
			if strings.HasPrefix(head, "POST /v1/chat/completions HTTP/1.1\r\n") {
				answer = httpResponse("200 OK", "", string(body))
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	})
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	require.Equal(t, `{"a":1}`, text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat+"/", w.good.text, `{"a":1}`)))
	require.Len(t, e.seen(), 2)
}

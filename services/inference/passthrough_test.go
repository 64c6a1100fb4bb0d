package inference_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEngineResponseUnchanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw, status, body, outcome string
	}{
		{httpResponse("200 OK", "application/json", okJSON), "200 OK", okJSON, "ok"},
		{httpResponse("400 Bad Request", "application/json", `{"error":"own words"}`), "400 Bad Request", `{"error":"own words"}`, "client_error"},
		{httpResponse("429 Too Many Requests", "text/plain", "slow"), "429 Too Many Requests", "slow", "engine_error"},
		{httpResponse("500 Internal Server Error", "", "boom"), "500 Internal Server Error", "boom", "engine_error"},
		{httpResponse("599 Odd", "", "odd"), "599 ", "odd", "engine_error"},
		{"HTTP/1.1 204 No Content\r\n\r\n", "204 No Content", "", "ok"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "200 OK", "abcde", "ok"},
		{"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + httpResponse("200 OK", "", "after"), "200 OK", "after", "ok"},
	} {
		t.Run(c.status+c.body, func(t *testing.T) {
			t.Parallel()
			r, w := open(t), newDeploymentStates(t, newEngine(t, always(c.raw)))
			r.ready(w.deployments()...)
			resp := r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, `{"model":"other"}`)
			require.Equal(t, c.body, text(t, resp))
			require.Equal(t, strings.Fields(c.status)[0], strings.Fields(resp.Status)[0])
			got := r.rows(1)[0]
			require.Equal(t, c.outcome, got.Outcome)
			require.Equal(t, int64(len(c.body)), got.Out)
			require.Equal(t, int64(len(`{"model":"other"}`)), got.In)
		})
	}
}

func TestResponseDelimitedByConnectionClose(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, once("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end")))
	r.ready(w.deployments()...)
	for range 2 {
		require.Equal(t, "to the end", text(t, r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")))
	}
	require.Equal(t, 2, w.e.connections())
}

// withheldFromEngine returns header fields of an engine that no caller may receive.
func withheldFromEngine() []string {
	return []string{
		"Set-Cookie: a=b", "Set-Cookie2: y", "Set-Login: logged-in", "Clear-Site-Data: \"*\"", "Service-Worker-Allowed: /", "Alt-Svc: h3=\":1\"",
		"Strict-Transport-Security: max-age=1", "Content-Security-Policy: default-src *", "Content-Security-Policy-Report-Only: x", "Permissions-Policy: x=*",
		"Referrer-Policy: unsafe-url", "X-Frame-Options: ALLOWALL", "X-Content-Type-Options: whatever", "Cross-Origin-Opener-Policy: unsafe-none",
		"Cross-Origin-Resource-Policy: cross-origin", "Origin-Agent-Cluster: ?1", "Origin-Trial: x", "Access-Control-Allow-Origin: *",
		"Access-Control-Allow-Credentials: true", "Access-Control-Expose-Headers: *", "Timing-Allow-Origin: *", "Public-Key-Pins: x",
		"Public-Key-Pins-Report-Only: x", "Refresh: 0;url=//evil", "WWW-Authenticate: Basic", "Proxy-Authenticate: Basic", "Proxy-Status: x", "X-Service-Token: t",
		"X-Service-Caller: t", "X-Request-Id: engines", "X-Accel-Redirect: /internal", "X-Accel-Buffering: yes", "X-Sendfile: /etc/passwd",
		"X-Lighttpd-Send-File: /x", "X-Reproxy-URL: http://x", "NEL: {}", "Report-To: {}", "Reporting-Endpoints: x=\"//evil\"", "Accept-CH: Sec-CH-UA",
		"Critical-CH: Sec-CH-UA", "SourceMap: /x", "X-SourceMap: /x", "Content-Location: http://10.0.0.1/x", "Surrogate-Control: max-age=1", "Surrogate-Key: x",
		"CDN-Cache-Control: public", "Expires: Thu, 01 Dec 2033 16:00:00 GMT", "Pragma: cache", "Location: https://evil.example/v1/x",
		"Keep-Alive: timeout=5", "Upgrade: h2c", "Trailer: X-T", "X-Named: 1", "X-Other: 2", "set-cookie : a=b",
	}
}

// passedFromEngine returns header fields of an engine that callers receive unchanged.
func passedFromEngine() []string {
	return []string{
		"Openai-Processing-Ms: 12", "Etag: \"v\"", "Retry-After: 7", "X-Process-Time: 1", "Vary: Accept", "Retry-After-Ms: 7000", "X-Should-Retry: true",
		"X-Ratelimit-Remaining-Requests: 9", "Content-Disposition: attachment; filename=a.bin", "Accept-Ranges: bytes", "Link: </v1/models?page=2>; rel=next",
		"X-Model-Own: own", "Anthropic-Ratelimit-Tokens-Remaining: 3", "Server: engine/1", "Content-Language: de", "Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT",
		"X_under: score", "Age: 1", "Allow: GET", "Server-Timing: total;dur=1", "Content-Md5: x",
	}
}

// The engine responds in 300 ways. Callers receive each of its headers except those that are withheld.
func TestEngineHeadersFiltered(t *testing.T) {
	t.Parallel()
	answers := make(chan string, 1)
	e := newEngine(t, func(e *engine, c net.Conn, in *bufio.Reader) {
		for {
			if _, _, ok := e.read(in); !ok {
				return
			}
			if _, err := io.WriteString(c, <-answers); err != nil {
				return
			}
		}
	})
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	hostile, allowed := withheldFromEngine(), passedFromEngine()
	for i := range 300 {
		lines := append([]string{"Cache-Control: public, max-age=3", "Connection: X-Named, x-other"}, allowed...)
		if i == 0 {
			lines = append(lines, hostile...)
		}
		for _, n := range []int{i, i * 7, i * 11} {
			lines = append(lines, hostile[n%len(hostile)], strings.ToUpper(hostile[(n+1)%len(hostile)]))
		}
		answers <- httpResponse("200 OK", "text/html", "<script>", lines...)
		resp := r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")
		require.Equal(t, "<script>", text(t, resp))
		got := resp.Header
		for _, h := range allowed {
			name, value, _ := strings.Cut(h, ": ")
			require.Equal(t, []string{value}, got[http.CanonicalHeaderKey(name)], name)
			got.Del(name)
		}
		require.Regexp(t, "^req_", got.Get("X-Request-Id"))
		got.Del("X-Request-Id")
		got.Del("Date")
		require.Equal(t, http.Header{
			"Content-Type": {"text/html"}, "Content-Length": {"8"}, "X-Content-Type-Options": {"nosniff"}, "Cache-Control": {"private, max-age=3"},
			"Content-Security-Policy": {"sandbox; default-src 'none'"},
		}, got, "%d: %q", i, lines)
	}
}

// Heads of 1xx responses and trailers have the same list as final heads.
func TestEngineHeadersFilteredInEveryPart(t *testing.T) {
	t.Parallel()
	lines := slices.DeleteFunc(append(withheldFromEngine(), passedFromEngine()...), func(h string) bool { return strings.HasPrefix(h, "Trailer") })
	part := strings.Join(lines, "\r\n") + "\r\n\r\n"
	r, w := open(t), newDeploymentStates(t, newEngine(t, always("HTTP/1.1 103 Early Hints\r\nConnection: X-Named, x-other\r\n"+part+
		"HTTP/1.1 200 OK\r\nConnection: x-named\r\nConnection: X-OTHER\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"+part)))
	r.ready(w.deployments()...)
	req := r.request(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")
	var early http.Header
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		early = http.Header(h).Clone()
		return nil
	}}))
	resp := r.send(req)
	require.Equal(t, "ok", text(t, resp))
	want := http.Header{}
	for _, h := range passedFromEngine() {
		name, value, _ := strings.Cut(h, ": ")
		want.Set(name, value)
	}
	require.Equal(t, want, early)
	require.Equal(t, want, resp.Trailer)
}

func TestContentTypeNotGuessed(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "<html><script>"))))
	r.ready(w.deployments()...)
	resp := r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")
	_ = text(t, resp)
	require.Empty(t, resp.Header["Content-Type"])
}

// withheldFromCaller returns names of headers of a caller that no engine may receive.
func withheldFromCaller() []string {
	return []string{
		"Cookie", "Proxy-Authorization", "Proxy-Connection", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Auth-Token", "X-Auth-Request-User",
		"X-Service-Token", "X-Service-Caller", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-User", "Forwarded", "Via",
		"X-Real-Ip", "X-Client-Ip", "Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Envoy-External-Address", "X-Original-Url", "X-Rewrite-Url",
		"X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "Origin", "Referer", "Baggage", "Grpc-Metadata-X", "Grpc-Timeout",
		"X_forwarded_for", "Own_name", "Te", "Keep-Alive", "Http2-Settings", "Expect", "X-Request-Id", "Sec-Websocket-Key", "Sec-Websocket-Protocol",
	}
}

// The caller sends 300 requests. The engine receives each header except those that are withheld.
func TestCallerHeadersFiltered(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "ok"))))
	r.ready(w.deployments()...)
	passes := map[string]string{
		"Accept": "a/b", "Accept-Encoding": "gzip", "Accept-Language": "de", "Content-Type": "application/json", "Openai-Beta": "x",
		"User-Agent": "me", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Anthropic-Version": "2023-06-01",
		"Anthropic-Beta": "tools", "Range": "bytes=0-9", "If-Range": "\"v\"", "If-None-Match": "\"v\"", "Idempotency-Key": "k-1", "X-Data-Parallel-Rank": "3",
		"X-Stainless-Retry-Count": "1", "X-Own": "own", "Priority": "u=1", "Cache-Control": "no-cache", "Pragma": "no-cache", "X-Session-Id": "s",
	}
	hidden := withheldFromCaller()
	for i := range 300 {
		req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}")
		want := map[string]string{"Host": w.e.addr, "Content-Length": "2", "Authorization": "Bearer " + engineKey}
		for name, value := range passes {
			req.Header.Set(name, value)
			want[name] = value
		}
		for _, name := range []string{hidden[i%len(hidden)], hidden[(i*11)%len(hidden)]} {
			if name != "Expect" { // 100-continue is the only value that net/http accepts
				req.Header.Set(name, "evil")
			}
		}
		req.Header[strings.ToLower(hidden[(i*7)%len(hidden)])] = []string{"evil too"}
		delete(req.Header, "expect")
		if i%3 == 0 {
			req.Header.Set("Connection", "Openai-Beta, authorization, x-own")
			delete(want, "Openai-Beta")
			delete(want, "X-Own")
		}
		if i%5 == 0 {
			req.Header.Set("Traceparent", "00-malformed")
			delete(want, "Traceparent")
		}
		require.Equal(t, "ok", text(t, r.send(req)))
		heads := w.e.seen()
		got := map[string]string{}
		for _, line := range strings.Split(strings.TrimSpace(heads[len(heads)-1]), "\r\n")[1:] {
			name, value, _ := strings.Cut(line, ": ")
			require.NotContains(t, got, name, "a header must be sent once")
			got[name] = value
		}
		require.Regexp(t, `^req_[0-9a-z]{26}$`, got["X-Request-Id"])
		delete(got, "X-Request-Id")
		require.Equal(t, want, got, "%d: %s", i, hidden[i%len(hidden)])
	}
	require.Equal(t, 1, w.e.connections(), "all calls must share one connection")
}

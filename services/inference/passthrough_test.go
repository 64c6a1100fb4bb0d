package inference_test

import (
	"net/http"
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

func TestEngineHeadersFiltered(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"Set-Cookie: a=b", "Clear-Site-Data: \"*\"", "Service-Worker-Allowed: /", "Alt-Svc: h3=\":1\"", "Strict-Transport-Security: max-age=1",
		"Access-Control-Allow-Origin: *", "Access-Control-Allow-Credentials: true", "Location: https://evil", "Refresh: 0;url=//evil",
		"Content-Security-Policy: default-src *", "X-Content-Type-Options: whatever", "X-Request-Id: engines", "Server: engine/1",
		"WWW-Authenticate: Basic", "Authorization: Bearer x", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "Link: </x>; rel=preload",
		"Connection: X-Named", "X-Named: 1", "Trailer: X-T", "Upgrade: h2c", "X-Service-Token: t", "Public-Key-Pins: x", "Set-Cookie2: y", "Via: 1.1 x",
	}
	allowed := []string{"Openai-Processing-Ms: 12", "Cache-Control: private, max-age=3", "Etag: \"v\"", "Retry-After: 7", "X-Process-Time: 1", "Vary: Accept"}
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "text/html", "<script>", append(hostile, allowed...)...))))
	r.ready(w.deployments()...)
	resp := r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")
	require.Equal(t, "<script>", text(t, resp))
	got := resp.Header
	for _, h := range allowed {
		name, value, _ := strings.Cut(h, ": ")
		require.Equal(t, []string{value}, got[name], name)
		delete(got, name)
	}
	require.Regexp(t, "^req_", got.Get("X-Request-Id"))
	got.Del("X-Request-Id")
	got.Del("Date")
	require.Equal(t, http.Header{
		"Content-Type": {"text/html"}, "Content-Length": {"8"}, "X-Content-Type-Options": {"nosniff"},
		"Content-Security-Policy": {"sandbox; default-src 'none'"},
	}, got)
}

func TestContentTypeNotGuessed(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "<html><script>"))))
	r.ready(w.deployments()...)
	resp := r.do(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")
	_ = text(t, resp)
	require.Empty(t, resp.Header["Content-Type"])
}

func TestCallerHeadersFiltered(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "ok"))))
	r.ready(w.deployments()...)
	passes := map[string]string{
		"Accept": "a/b", "Accept-Encoding": "gzip", "Accept-Language": "de", "Content-Type": "application/json", "Openai-Beta": "x",
		"User-Agent": "me", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	hidden := []string{
		"Cookie", "X-Service-Token", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-Ip", "Proxy-Authorization",
		"Te", "Via", "X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override", "X_forwarded_for", "X-Api-Key", "X-Request-Id", "Origin",
		"Referer", "Keep-Alive", "Proxy-Connection", "X-Service-Caller", "Grpc-Metadata-X", "Baggage", "Range", "If-None-Match",
	}
	for i := range 300 {
		req := r.request(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}")
		want := map[string]string{"Host": w.e.addr, "Content-Length": "2", "Authorization": "Bearer " + engineKey}
		for name, value := range passes {
			req.Header.Set(name, value)
			want[name] = value
		}
		req.Header.Set(hidden[i%len(hidden)], "evil")
		req.Header.Add(strings.ToLower(hidden[(i*7)%len(hidden)]), "evil too")
		if i%3 == 0 {
			req.Header.Set("Connection", "Openai-Beta, authorization")
			delete(want, "Openai-Beta")
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

package inference_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seenHeaders returns the headers of the last request that the engine received.
func seenHeaders(e *engine) http.Header {
	heads, out := e.seen(), http.Header{}
	for _, line := range strings.Split(strings.TrimSpace(heads[len(heads)-1]), "\r\n")[1:] {
		name, value, _ := strings.Cut(line, ": ")
		out[name] = append(out[name], value)
	}
	return out
}

// engineRoutes returns the prefixes of the two routes to an engine, and opens a playground session for the second one.
func (r *harness) engineRoutes(e *engine) (prefixes []string, caller string) {
	caller = r.openSession(e, time.Hour)
	return []string{"/inference/" + deploymentA, "/api/playground/sessions/" + session + "/targets/1"}, caller
}

// The default HTTP clients of Java and `curl --http2` offer an upgrade to HTTP/2 in each request.
func TestOtherUpgradesIgnored(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "", "plain")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	prefixes, caller := r.engineRoutes(e)
	for _, upgrade := range []string{"h2c", "H2C", "TLS/1.0", "h2c, IRC/6.9", "websocketx", "foo/websocket", ""} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for _, prefix := range prefixes {
				body := map[string]string{http.MethodPost: "{}"}[method]
				req := r.request(method, prefix+chat, w.good.text, body)
				req.Header.Set("X-Service-Caller", caller)
				req.Header.Set("Connection", "Upgrade, HTTP2-Settings")
				req.Header.Set("Upgrade", upgrade)
				req.Header.Set("Http2-Settings", "AAMAAABkAAQAAP__")
				resp := r.send(req)
				require.Equal(t, "plain", text(t, resp), "%s %s %q", method, prefix, upgrade)
				require.Equal(t, "HTTP/1.1", resp.Proto)
				for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
					require.NotContains(t, seenHeaders(e), name, "%s %q", method, upgrade)
				}
			}
		}
	}
}

func TestIgnoredUpgradeGetsNoTunnel(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")))
	r.ready(w.deployments()...)
	req := r.request(http.MethodGet, "/inference/"+deploymentA+"/v1/models", w.good.text, "")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "h2c")
	refused(t, r.send(req), 502, "engine_lost")
}

func TestMalformedWebSocketHandshakeRefused(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "", "never")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	prefixes, caller := r.engineRoutes(e)
	for _, upgrade := range []string{"websocket", "WebSocket", "websocket, h2c", "h2c ,websocket", "websocket/13"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for _, prefix := range prefixes {
				req := r.request(method, prefix+"/v1/realtime", w.good.text, "")
				req.Header.Set("X-Service-Caller", caller)
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", upgrade)
				refused(t, r.send(req), 400, "bad_upgrade")
			}
		}
	}
	for _, method := range []string{http.MethodTrace, http.MethodConnect} {
		resp := raw(t, r, method+" /inference/"+deploymentA+"/v1/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer "+w.good.text+"\r\n\r\n")
		refused(t, resp, 400, "bad_method")
	}
	require.Empty(t, e.seen())
}

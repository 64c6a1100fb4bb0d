package inference_test

import (
	"crypto/rand"
	"net/http"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// tokenOf returns a new token of the given kind.
func tokenOf(t *testing.T, kind string) string {
	t.Helper()
	minted, err := secret.Mint(rand.Reader, kind)
	require.NoError(t, err)
	return minted.Reveal()
}

// Browsers cannot set headers of a WebSocket handshake, so clients of OpenAI put the key into a subprotocol.
func TestCredentialInSubprotocolWithheld(t *testing.T) {
	t.Parallel()
	e := echoServer(t, &websocket.AcceptOptions{Subprotocols: []string{"realtime", "openai-beta.realtime-v1"}})
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	for name, c := range map[string]struct {
		offered []string
		chosen  string
	}{
		"last":           {[]string{"realtime", "openai-insecure-api-key." + w.good.text}, "realtime"},
		"first":          {[]string{"openai-insecure-api-key." + w.good.text, "openai-beta.realtime-v1"}, "openai-beta.realtime-v1"},
		"between":        {[]string{"x", w.good.text, "realtime"}, "realtime"},
		"other token":    {[]string{"key." + w.other.text + ".x", "realtime"}, "realtime"},
		"only":           {[]string{"openai-insecure-api-key." + w.good.text}, ""},
		"none":           {[]string{"realtime"}, "realtime"},
		"other product":  {[]string{"key.sk-0123456789abcdef", "realtime"}, "realtime"},
		"both, repeated": {[]string{w.good.text, w.good.text, "realtime", w.other.text}, "realtime"},
	} {
		conn, _, err := r.dial(w.good.text, "/v1/realtime", c.offered...)
		require.NoError(t, err, name)
		require.Equal(t, c.chosen, conn.Subprotocol(), name)
		r.echoes(conn, websocket.MessageText, "hello")
		got := e.offered()
		require.NotContains(t, got, w.good.text, name)
		require.NotContains(t, got, w.other.text, name)
		if name == "other product" {
			require.Contains(t, got, "sk-0123456789abcdef")
		}
	}
}

func TestCredentialInAnyHeaderWithheld(t *testing.T) {
	t.Parallel()
	e := newEngine(t, always(httpResponse("200 OK", "", "ok")))
	r, w := open(t), newDeploymentStates(t, e)
	r.ready(w.deployments()...)
	prefixes, caller := r.engineRoutes(e)
	for _, value := range []string{
		w.good.text, "Bearer " + w.good.text, "a, " + w.other.text + ";q=1", "key=" + w.good.text[:40], "x" + w.good.text + "x", caller, "token " + caller,
		tokenOf(t, secret.KindIngest), tokenOf(t, secret.KindRefresh), tokenOf(t, secret.KindFleetJoin),
	} {
		for _, name := range []string{"X-Own", "Accept", "Openai-Organization", "User-Agent", "Tracestate", "Content-Type", "If-Match"} {
			for _, prefix := range prefixes {
				req := r.request(http.MethodPost, prefix+chat, w.good.text, "{}")
				req.Header.Set("X-Service-Caller", caller)
				req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
				req.Header.Set(name, value)
				req.Header.Add("X-Kept", "yes")
				req.Header.Add("X-Kept", value)
				require.Equal(t, "ok", text(t, r.send(req)))
				got := seenHeaders(e)
				require.NotContains(t, got, name, value)
				require.Equal(t, []string{"yes"}, got["X-Kept"], "other values of the header pass")
				require.Equal(t, []string{"Bearer " + engineKey}, got["Authorization"])
				require.Contains(t, got, "Traceparent")
			}
		}
	}
	// What only resembles a credential passes, and so do those of others.
	for _, value := range []string{"dtk_short", "adtk_", "xing_up_the_road", "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl", "sk-ant-0123456789abcdef"} {
		req := r.request(http.MethodPost, prefixes[0]+chat, w.good.text, "{}")
		req.Header.Set("X-Own", value)
		require.Equal(t, "ok", text(t, r.send(req)))
		require.Equal(t, []string{value}, seenHeaders(e)["X-Own"])
	}
}

package llm

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/egress"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestCaller_Test_workingModel(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, replies(strings.Repeat("ü", 300)), echoNonce(), replies("It gave the nonce back."))
	require.Equal(t, Result{
		Configured: true, OK: true, Model: "used-model", Endpoint: u.URL + "/v1/chat/completions", Sample: strings.Repeat("ü", 200), ToolsOK: true,
	}, u.test())
	made := u.made()
	require.Len(t, made, 3)
	require.Equal(t, "asked-model", made[0].Model)
	require.Empty(t, made[0].Tools)
	require.Equal(t, map[string]any{"type": "function", "function": map[string]any{"name": echo}}, made[1].ToolChoice, "the tool call is forced")
	require.Nil(t, made[2].ToolChoice)
	require.Len(t, made[2].Messages, 3)
	require.Equal(t, "call_1", made[2].Messages[1].ToolCalls[0].ID)
	require.Equal(t, "call_1", made[2].Messages[2].ToolCallID)
	require.Contains(t, *made[2].Messages[2].Content, nonceOf(made[1]))
}

func TestCaller_Test_toolChoiceAutoFallback(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 404, 422, 501} {
		u := newUpstream(t, replies("ready"), respondWith(status, "application/json", `{"error": "tool_choice"}`), echoNonce(), replies("done"))
		r := u.test()
		require.True(t, r.ToolsOK, "%d: %s", status, r.ToolsError)
		require.Equal(t, "auto", u.made()[2].ToolChoice)
	}
}

func TestCaller_Test_upstreamErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first step
		want  []string
	}{
		"wrong key":                {respondWith(401, "application/json", `{"error":{"message":"Incorrect API key"}}`), []string{"401 Unauthorized", "the key is not accepted", "Incorrect API key"}},
		"key without rights":       {respondWith(403, "application/json", `{"error":"no access to it"}`), []string{"403 Forbidden", "the key is not accepted", "no access to it"}},
		"unknown model or path":    {respondWith(404, "text/html", "<h1>no such page</h1>"), []string{"404 Not Found", "unknown model or path", "<h1>no such page</h1>"}},
		"rate limit":               {respondWith(429, "application/json", `{"error":"quota exceeded"}`), []string{"429 Too Many Requests", "limit", "quota exceeded"}},
		"server error":             {respondWith(500, "text/plain", "stack trace here"), []string{"500 Internal Server Error", "stack trace here"}},
		"server error, empty body": {respondWith(503, "text/plain", ""), []string{"503 Service Unavailable", "(empty)"}},
		"HTML page":                {respondWith(200, "text/html", "<html>Sign in</html>"), []string{"not JSON", "text/html", "Sign in"}},
		"event stream":             {respondWith(200, "text/event-stream", "data: {\"choices\":[]}\n\ndata: [DONE]\n\n"), []string{"not JSON", "text/event-stream", "data:"}},
		"truncated JSON":           {respondWith(200, "application/json", `{"choices":[{"message"`), []string{"not JSON"}},
		"not a chat completion":    {respondWith(200, "application/json", `{"output":"hello"}`), []string{"choices[0].message", `{"output":"hello"}`}},
		"no choices":               {respondWith(200, "application/json", `{"choices":[]}`), []string{"choices[0].message"}},
		"choice of a wrong type":   {respondWith(200, "application/json", `{"choices":[{"message":{"content":["a"]}}]}`), []string{"not a chat completion", "content"}},
		"blank text":               {replies("  "), []string{"no text"}},
		"number":                   {respondWith(200, "application/json", `17`), []string{"not a chat completion"}},
		"too large":                {respondWith(200, "application/json", `{"x":"`+strings.Repeat("x", maxResponse)+`"}`), []string{"larger than"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, tc.first)
			r := u.test()
			require.True(t, r.Configured)
			require.False(t, r.OK)
			require.False(t, r.ToolsOK)
			require.Equal(t, notTested, r.ToolsError)
			require.Equal(t, "asked-model", r.Model)
			require.Equal(t, u.URL+"/v1/chat/completions", r.Endpoint)
			require.Empty(t, r.Sample)
			for _, want := range tc.want {
				require.Contains(t, r.Error, want)
			}
			require.Len(t, u.made(), 1, "a failure ends the test")
		})
	}
}

func TestCaller_Test_functionCallErrors(t *testing.T) {
	t.Parallel()
	plain := func(text string) func(string) any { return func(string) any { return text } }
	for name, tc := range map[string]struct {
		script []step
		want   string
	}{
		"text instead of a call":   {[]step{replies("The nonce is nice.")}, "the model replied with text instead of a function call: The nonce is nice."},
		"empty message":            {[]step{replies("")}, "neither a function call nor text"},
		"another function":         {[]step{callsWith("rm_rf", "call_1", plain(`{}`))}, `"rm_rf"`},
		"no id":                    {[]step{callsWith(echo, "", plain(`{}`))}, "no id"},
		"arguments not JSON":       {[]step{callsWith(echo, "call_1", plain(`nonce=1`))}, "not the expected JSON: nonce=1"},
		"arguments an object":      {[]step{callsWith(echo, "call_1", func(n string) any { return map[string]string{"nonce": n} })}, "not a chat completion"},
		"wrong nonce":              {[]step{callsWith(echo, "call_1", plain(`{"nonce": "0000"}`))}, "a different nonce"},
		"no nonce":                 {[]step{callsWith(echo, "call_1", plain(`{}`))}, "a different nonce"},
		"rejected twice":           {[]step{respondWith(400, "application/json", `{"e":"first"}`), respondWith(400, "application/json", `{"e":"tools are off"}`)}, "tools are off"},
		"rate limit":               {[]step{respondWith(429, "application/json", `{"e":"slow down"}`)}, "slow down"},
		"second turn fails":        {[]step{echoNonce(), respondWith(500, "text/plain", "role tool unknown")}, "send the function result to the model: 500 Internal Server Error; upstream response: role tool unknown"},
		"second turn without text": {[]step{echoNonce(), replies("")}, "the model returned no text after it received the function result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, append([]step{replies("ready")}, tc.script...)...)
			r := u.test()
			require.True(t, r.OK, r.Error)
			require.Equal(t, "ready", r.Sample)
			require.Empty(t, r.Error)
			require.False(t, r.ToolsOK)
			require.Contains(t, r.ToolsError, tc.want)
			require.Len(t, u.made(), 1+len(tc.script))
		})
	}
}

func TestCaller_Test_badBaseURL(t *testing.T) {
	t.Parallel()
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, tc := range map[string]struct{ base, want string }{
		"malformed URL":                  {"http://[::1", "base URL"},
		"wrong scheme":                   {"ftp://example.com/v1", "scheme"},
		"no scheme":                      {"api.example.com/v1", "scheme"},
		"user in the URL":                {"https://me:pass@example.com/v1", "contains user information"},
		"query":                          {"https://example.com/v1?key=x", "query"},
		"full path":                      {"https://example.com/v1/chat/completions", "/chat/completions"},
		"short IP address":               {"http://127.1/v1", "neither a host name nor a complete IP address"},
		"unknown host":                   {"https://no-such-host.invalid/v1", "resolving the host"},
		"connection refused":             {"http://" + closedPort(t) + "/v1", "connecting: "},
		"untrusted certificate":          {tls.URL + "/v1", "performing the TLS handshake: "},
		"server without TLS":             {strings.Replace(plain.URL, "http", "https", 1) + "/v1", "performing the TLS handshake: "},
		"metadata server":                {"http://169.254.169.254/v1", "address is not allowed"},
		"private network":                {"https://10.0.0.1/v1", "SERVICE_EGRESS_ALLOW"},
		"public address over plain http": {"http://8.8.8.8/v1", "plain http"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := loopback().Test(t.Context(), Settings{BaseURL: tc.base, Model: "m", Key: secret.New(key)})
			require.True(t, r.Configured)
			require.False(t, r.OK)
			require.Contains(t, r.Error, tc.want)
			require.Equal(t, notTested, r.ToolsError)
		})
	}
}

// The error names the stage that took too long.
func TestCaller_Test_timeoutNamesStage(t *testing.T) {
	t.Parallel()
	mute, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = mute.Close() }) // it accepts connections and sends nothing
	silent := func(w http.ResponseWriter, r *http.Request, _ chatRequest) { <-r.Context().Done() }
	endless := func(w http.ResponseWriter, r *http.Request, _ chatRequest) {
		_, _ = io.WriteString(w, `{"choices":`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	quick := Caller{Rand: loopback().Rand, Client: follow(egress.New(egress.Options{
		Networks: egress.NewNetworks(netip.MustParsePrefix("127.0.0.0/8")), Body: maxResponse, Timeout: 100 * time.Millisecond, Dial: 100 * time.Millisecond,
	}))}
	for name, tc := range map[string]struct{ base, want string }{
		"handshake":        {"https://" + mute.Addr().String() + "/v1", "performing the TLS handshake took too long"},
		"response headers": {newUpstream(t, silent).URL + "/v1", "waiting for the response took too long"},
		"response body":    {newUpstream(t, endless).URL + "/v1", "reading the response took too long"},
	} {
		r := quick.Test(t.Context(), Settings{BaseURL: tc.base, Model: "m", Key: secret.New(key)})
		require.Equal(t, tc.want, r.Error, name)
	}
}

func TestCaller_Test_followsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := newUpstream(t, replies("you should not be here"))
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{elsewhere.URL + "/v1/chat/completions", "/v1/chat/completions", "https://evil.example/" + key} {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ chatRequest) {
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			}, replies("nor here"))
			r := u.test()
			require.False(t, r.OK)
			require.Contains(t, r.Error, "a redirect to ")
			require.Contains(t, r.Error, "which is not followed")
			require.NotContains(t, r.Error, key)
			require.Len(t, u.made(), 1)
		}
	}
	require.Empty(t, elsewhere.made())
}

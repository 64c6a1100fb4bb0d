package llm

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/egress"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const key = "sk-proj-Zx81+q/TRUE=secret"

// step handles one call of the upstream.
type step func(w http.ResponseWriter, r *http.Request, in chatRequest)

// upstream is an OpenAI-compatible server that handles each call with the next step of its script.
type upstream struct {
	*httptest.Server

	t      *testing.T
	mu     sync.Mutex
	script []step
	calls  []chatRequest
}

func newUpstream(t *testing.T, script ...step) *upstream {
	t.Helper()
	u := &upstream{t: t, script: script}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var in chatRequest
	u.mu.Lock()
	var next step
	if err == nil && json.Unmarshal(raw, &in) == nil && len(u.script) > 0 {
		next, u.script = u.script[0], u.script[1:]
		u.calls = append(u.calls, in)
	}
	u.mu.Unlock()
	if next == nil || r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+key {
		http.Error(w, "unexpected "+r.Method+" "+r.URL.Path, http.StatusTeapot)
		return
	}
	next(w, r, in)
}

func (u *upstream) made() []chatRequest {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]chatRequest(nil), u.calls...)
}

func (u *upstream) settings() Settings {
	return Settings{BaseURL: u.URL + "/v1", Model: "asked-model", Key: secret.New(key)}
}

// loopback returns a Caller as in production, except that it may call this machine and has longer timeouts.
func loopback() Caller {
	networks := egress.NewNetworks(netip.MustParsePrefix("127.0.0.0/8"))
	return Caller{Rand: rand.Reader, Client: follow(egress.New(egress.Options{
		Networks: networks, Body: maxResponse, Timeout: time.Minute, Dial: time.Minute,
	}))}
}

func (u *upstream) test() Result {
	u.t.Helper()
	return loopback().Test(u.t.Context(), u.settings())
}

func respondWith(status int, typ, body string) step {
	return func(w http.ResponseWriter, _ *http.Request, _ chatRequest) {
		w.Header().Set("Content-Type", typ)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func replies(text string) step {
	raw, err := json.Marshal(map[string]any{"model": "used-model", "choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": text}}}})
	if err != nil {
		panic(err)
	}
	return respondWith(http.StatusOK, "application/json", string(raw))
}

// callsWith responds with a call of the named function. The parameter arguments is a function that receives the nonce
// of the request and returns the arguments of the call.
func callsWith(name, id string, arguments func(nonce string) any) step {
	return func(w http.ResponseWriter, r *http.Request, in chatRequest) {
		raw, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{
			"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": arguments(nonceOf(in))},
			}},
		}}}})
		if err != nil {
			panic(err)
		}
		respondWith(http.StatusOK, "application/json; charset=utf-8", string(raw))(w, r, in)
	}
}

func echoNonce() step {
	return callsWith(echo, "call_1", func(nonce string) any { return `{"nonce": "` + nonce + `"}` })
}

// nonceOf returns the nonce in the user message.
func nonceOf(in chatRequest) string {
	text := *in.Messages[0].Content
	const before = "with the nonce "
	at := len("Call the function "+echo+" ") + len(before)
	return text[at : at+16]
}

// closedPort returns an address on which no server listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

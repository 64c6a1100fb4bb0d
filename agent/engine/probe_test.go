package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	oneToken  = `{"choices":[{"message":{"content":"x"}}],"usage":{"completion_tokens":1}}`
	twoEvents = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\ndata: [DONE]\n\n"
)

// healthyEngine returns an engine that passes all probes.
func healthyEngine() script {
	return script{
		"/v1/models":           send(200, "application/json", `{"data":[{"id":"default"}]}`),
		"/v1/chat/completions": chat(send(200, "application/json", oneToken), send(200, events, twoEvents)),
	}
}

func passed(r Result) map[string]bool {
	all := map[string]bool{}
	for _, c := range r.Checks {
		all[c.Name] = c.OK
	}
	return all
}

func TestProber_Run_stopsAtFirstFailure(t *testing.T) {
	t.Parallel()
	order := func(r Result) (names []string) {
		for _, c := range r.Checks {
			names = append(names, c.Name)
		}
		return names
	}
	require.Equal(t, []string{"bound", "models", "generate", "stream", "capabilities"}, order(probe(t, healthyEngine(), nil)))
	for stop, broken := range map[string]script{
		"models":   {"/v1/models": send(200, "", `{"data":[{"id":"other"}]}`)},
		"generate": {"/v1/models": send(200, "", `{}`), "/v1/chat/completions": send(500, "", "out of cheese")},
	} {
		r := probe(t, broken, nil)
		names := order(r)
		require.Equal(t, stop, names[len(names)-1])
		require.False(t, passed(r)[stop])
		require.False(t, r.OK())
		require.Equal(t, r.Message, r.Checks[len(r.Checks)-1].Detail)
	}
}

func TestProber_Run_embeddingSkipsStream(t *testing.T) {
	t.Parallel()
	r := probe(t, script{
		"/v1/models": send(200, "", `{}`), "/v1/embeddings": send(200, "", `{"data":[{"embedding":[0.1]}]}`),
	}, func(target *Target) { target.Task = "embedding" })
	require.True(t, r.OK(), r.Message)
	require.NotContains(t, passed(r), "stream")
}

func TestProber_Run_requestPerTask(t *testing.T) {
	t.Parallel()
	for task, path := range map[string]string{"chat": "/v1/chat/completions", "": "/v1/chat/completions", "completion": "/v1/completions", "embedding": "/v1/embeddings"} {
		t.Run("task "+task, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var requests []map[string]any
			engine := healthyEngine()
			engine["/v1/models"] = send(200, "", `{"data":[{"id":"mine"}]}`)
			engine[path] = func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				request := map[string]any{"kind": r.Header.Get("Content-Type"), "method": r.Method}
				_ = json.Unmarshal(raw, &request)
				mu.Lock()
				requests = append(requests, request)
				mu.Unlock()
				if request["stream"] == true {
					send(200, events, twoEvents)(w, r)
					return
				}
				send(200, "", `{"choices":[{"text":"x","message":{"content":"x"}}],"data":[{"embedding":[1]}]}`)(w, r)
			}
			r := probe(t, engine, func(target *Target) { target.Task, target.Model, target.Names = task, "mine", []string{"mine"} })
			require.True(t, r.OK(), r.Message)
			require.NotEmpty(t, requests)
			for _, request := range requests {
				require.Equal(t, "mine", request["model"])
				require.Equal(t, "POST", request["method"])
				require.Equal(t, "application/json", request["kind"])
				if task != "embedding" && request["stream"] != true {
					require.EqualValues(t, 1, request["max_tokens"], "the probe must request one token")
				}
			}
		})
	}
}

func TestProber_Run_endlessResponse(t *testing.T) {
	t.Parallel()
	endless := func(kind, head string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, head)
			for block := strings.Repeat("x", 64<<10); ; {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
		}
	}
	for name, c := range map[string]struct {
		plain, stream http.HandlerFunc
		code          executor.Code
	}{
		"plain":                   {endless("application/json", `{"choices":[{"text":"`), send(200, events, twoEvents), executor.CodeGenerateFailed},
		"long event":              {send(200, "", oneToken), endless(events, "data: "), executor.CodeStreamFailed},
		"response without events": {send(200, "", oneToken), endless("text/html", "<"), executor.CodeStreamFailed},
	} {
		r := probe(t, script{"/v1/models": send(200, "", `{}`), "/v1/chat/completions": chat(c.plain, c.stream)}, func(target *Target) { target.Deadline = time.Minute })
		require.Equal(t, c.code, r.Code, name)
		require.LessOrEqual(t, len(r.Message), executor.MaxMessage, name)
		require.LessOrEqual(t, len(r.JSON()), 4*executor.MaxMessage, name)
	}
}

func TestProber_Run_hangingEngineFailsAtDeadline(t *testing.T) {
	t.Parallel()
	for where, code := range map[string]executor.Code{
		"/v1/models": executor.CodeModelNameMissing, "/v1/chat/completions": executor.CodeGenerateFailed,
	} {
		engine := healthyEngine()
		ctx, cancel := context.WithCancel(t.Context())
		engine[where] = func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			cancel() // has the same effect as the deadline
			<-r.Context().Done()
		}
		server := httptest.NewServer(engine)
		defer server.Close()
		r := NewProber(clock.Real()).Run(ctx, Target{Address: server.URL, Names: []string{"default"}, Deadline: time.Hour})
		require.Equal(t, code, r.Code, where)
		require.False(t, r.OK())
	}
}

func TestProber_Run_truncatedStream(t *testing.T) {
	t.Parallel()
	torn := func(kind, part string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, part)
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		}
	}
	r := probe(t, script{"/v1/models": send(200, "", `{}`), "/v1/chat/completions": chat(send(200, "", oneToken), torn(events, "data: {\"choices\":[{}]}\n\n"))}, nil)
	require.Equal(t, executor.CodeStreamFailed, r.Code)
}

func TestProber_Run_waitsForPort(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	clk := clock.NewFake(clock.Real().Now())
	done := make(chan Result, 1)
	go func() {
		done <- NewProber(clk).Run(t.Context(), Target{Address: "http://" + address, Names: []string{"default"}, Deadline: time.Hour})
	}()
	for range 3 {
		require.NoError(t, clk.Await(t.Context(), 1), "the prober must wait between two tries")
		clk.Advance(interval)
	}
	require.NoError(t, clk.Await(t.Context(), 1))
	server := httptest.NewUnstartedServer(healthyEngine())
	require.NoError(t, server.Listener.Close())
	server.Listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	server.Start()
	defer server.Close()
	clk.Advance(interval)
	require.True(t, (<-done).OK())
}

func TestProber_Bound_invalidAddress(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, address := range []string{"://", "http://", "127.0.0.1:1"} {
		require.Error(t, NewProber(clock.Real()).Bound(t.Context(), address), address)
		r := NewProber(clock.Real()).Run(ctx, Target{Address: address, Deadline: time.Hour})
		require.Equal(t, executor.CodePortTimeout, r.Code, address)
	}
}

func TestProber_Run_noKey(t *testing.T) {
	t.Parallel()
	engine, seen := healthyEngine(), make(chan string, 16)
	inner := engine["/v1/chat/completions"]
	engine["/v1/chat/completions"] = func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		inner(w, r)
	}
	r := probe(t, engine, func(target *Target) { target.Key = secret.String{} })
	require.True(t, r.OK(), r.Message)
	require.Empty(t, <-seen)
}

func TestCountEvents(t *testing.T) {
	t.Parallel()
	event := `{"choices":[{"delta":{"content":"x"}}]}`
	for name, c := range map[string]struct {
		body   string
		events int
		done   bool
		ok     bool
	}{
		"OpenAI format":             {"data: " + event + "\n\ndata: " + event + "\n\ndata: [DONE]\n\n", 2, true, true},
		"carriage returns":          {"data: " + event + "\r\n\r\ndata: [DONE]\r\n\r\n", 1, true, true},
		"without space after colon": {"data:" + event + "\n\ndata:[DONE]\n\n", 1, true, true},
		"other fields between":      {"event: x\nid: 1\nretry: 5\ndata: " + event + "\n\n", 1, false, true},
		"comments and blanks":       {": ping\n\n\n\ndata:\n\ndata: " + event + "\n\n", 1, false, true},
		"usage event not counted":   {"data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\ndata: [DONE]\n\n", 0, true, true},
		"missing final newline":     {"data: " + event, 1, false, true},
		"error in the stream":       {"data: " + event + "\n\ndata: Internal Server Error\n\n", 1, false, false},
		"empty":                     {"", 0, false, true},
	} {
		events, done, err := countEvents(strings.NewReader(c.body))
		require.Equal(t, c.ok, err == nil, name)
		require.Equal(t, c.events, events, name)
		require.Equal(t, c.done, done, name)
	}
}

func FuzzCountEvents(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte("data: [[[[\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		events, _, err := countEvents(strings.NewReader(string(body)))
		require.True(t, events >= 0 && (err == nil || events <= len(body)))
	})
}

func TestProber_Run_keyCheckedByStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{401: true, 403: true, 200: false, 500: false} {
		engine := healthyEngine()
		inner := engine["/v1/chat/completions"]
		engine["/v1/chat/completions"] = func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer key" {
				send(status, "", "{}")(w, r)
				return
			}
			inner(w, r)
		}
		r := probe(t, engine, nil)
		require.True(t, r.OK(), "the key check must not affect readiness")
		require.Equal(t, want, r.Capabilities["key_checked"], "key_checked for status %d", status)
	}
}

func TestProber_Run_guardStopsBeforeNextRequest(t *testing.T) {
	t.Parallel()
	other := errors.New("another process listens")
	for safe, requests := range []int{0, 1, 2} {
		engine, calls := script{}, 0
		var seen atomic.Int32
		for path, handle := range healthyEngine() {
			engine[path] = func(w http.ResponseWriter, r *http.Request) {
				seen.Add(1)
				handle(w, r)
			}
		}
		r := probe(t, engine, func(target *Target) {
			target.Guard = func() error {
				if calls++; calls > safe {
					return other
				}
				return nil
			}
		})
		require.EqualValues(t, requests, seen.Load())
		require.ErrorIs(t, r.Unsafe, other)
		require.False(t, r.OK())
		require.Empty(t, r.Code)
		require.Len(t, r.Checks, safe, "the last response must not be judged")
	}
}

func TestResult_OK_zeroValue(t *testing.T) {
	t.Parallel()
	require.False(t, Result{}.OK())
	require.JSONEq(t, `{"probes":null,"capabilities":null}`, string(Result{}.JSON()))
}

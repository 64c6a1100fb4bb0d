package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestLlamacpp_Plan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := Place{Dir: dir, ModelDir: dir, Host: "127.0.0.1", Port: 7, KeyFile: "/k", Python: "/py"}
	spec := executor.EngineSpec{Driver: "llamacpp", ServedNames: []string{"default"}, Args: []string{"--ctx", "64"}}
	d, err := Find(spec)
	require.NoError(t, err)
	_, err = d.Plan(spec, at)
	require.ErrorContains(t, err, ".gguf")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	model := filepath.Join(dir, "sub", "m-00001-of-00002.gguf")
	for _, name := range []string{model, filepath.Join(dir, "sub", "m-00002-of-00002.gguf"), filepath.Join(dir, "readme.txt")} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	c, err := d.Plan(spec, at)
	require.NoError(t, err)
	require.Equal(t, []string{
		"/py", filepath.Join(dir, "llamacpp.py"), "--model", model, "--host", "127.0.0.1", "--port", "7",
		"--api-key-file", "/k", "--alias", "default", "--ctx", "64",
	}, c.Args)
	spec.Task = "embedding"
	c, err = d.Plan(spec, at)
	require.NoError(t, err)
	require.Equal(t, []string{"default", "--embeddings", "--ctx", "64"}, c.Args[len(c.Args)-4:])
	require.Contains(t, string(c.Files["llamacpp.py"]), "xllamacpp")
	require.Contains(t, d.Environment(spec).Requirements, "xllamacpp==")
	for _, arg := range []string{"--host", "--host=0.0.0.0", "--ho", "--port", "--api-key-f", "--model", "--al"} {
		spec.Args = []string{arg, "x"}
		_, err := d.Plan(spec, at)
		require.ErrorContains(t, err, "the platform sets this option", arg)
	}
}

func TestCommand_Plan(t *testing.T) {
	t.Parallel()
	spec := executor.EngineSpec{
		Driver: "command", Command: []string{"python", "-m", "x", "--m={model}"}, Args: []string{"--at={host}:{port}", "{api_key_file}"},
		Environment: executor.EnvironmentSpec{Requirements: "r"},
	}
	d, err := Find(spec)
	require.NoError(t, err)
	c, err := d.Plan(spec, Place{ModelDir: "/m", Host: "h", Port: 7, KeyFile: "/k", Python: "/py"})
	require.NoError(t, err)
	require.Equal(t, []string{"/py", "-m", "x", "--m=/m", "--at=h:7", "/k"}, c.Args)
	require.Equal(t, "r", d.Environment(spec).Requirements)
	spec.Command = nil
	_, err = d.Plan(spec, Place{})
	require.Error(t, err)
}

func TestDriversAndDefaults(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"command", "llamacpp", "transformers"}, Names())
	_, err := Find(executor.EngineSpec{Driver: "none"})
	require.Error(t, err)
	require.Equal(t, "default", ServedName(executor.EngineSpec{}))
	require.Equal(t, "a", ServedName(executor.EngineSpec{ServedNames: []string{"a", "b"}}))
	require.Equal(t, 2*time.Minute, Deadline(executor.EngineSpec{}))
	require.Equal(t, time.Second, Deadline(executor.EngineSpec{ProbeDeadline: time.Second}))
}

// script is a fake engine. It maps paths to handlers.
type script map[string]http.HandlerFunc

func (s script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := s[r.URL.Path]; ok {
		h(w, r)
		return
	}
	http.NotFound(w, r)
}

func send(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

const events = "text/event-stream; charset=utf-8"

// chat returns a handler that passes requests with `"stream": true` to the handler stream, and all others to plain.
func chat(plain, stream http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Stream bool `json:"stream"`
		}
		_ = json.NewDecoder(r.Body).Decode(&request)
		if request.Stream {
			stream(w, r)
			return
		}
		plain(w, r)
	}
}

func probe(t *testing.T, s script, change func(*Target)) Result {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	target := Target{Address: server.URL, Key: secret.New("key"), Model: "default", Names: []string{"default"}, Deadline: time.Minute}
	if change != nil {
		change(&target)
	}
	return NewProber(clock.Real()).Run(t.Context(), target)
}

func TestProber_Run_responses(t *testing.T) {
	t.Parallel()
	list := send(200, "application/json", `{"data":[{"id":"default"}]}`)
	one := send(200, "application/json", `{"choices":[{"message":{"content":"x"}}],"usage":{"completion_tokens":1}}`)
	stream := send(200, events, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n")
	for name, c := range map[string]struct {
		engine script
		task   string
		code   executor.Code
		caps   map[string]bool
	}{
		"all capabilities": {
			engine: script{"/v1/models": list, "/v1/chat/completions": chat(one, stream)},
			caps:   map[string]bool{"model_list": true, "usage": true, "done": true, "key_checked": false},
		},
		"comments, no DONE, no model list": {
			engine: script{"/v1/models": send(500, "", ""), "/v1/chat/completions": chat(one,
				send(200, events, ": keepalive\n\ndata:{\"choices\":[{\"delta\":{}}]}\n\ndata: {\"choices\":[],\"usage\":{}}\n\n"))},
			caps: map[string]bool{"model_list": false, "usage": true, "done": false, "key_checked": false},
		},
		"token without a character": {engine: script{"/v1/models": list, "/v1/chat/completions": chat(
			send(200, "application/json", `{"choices":[{"message":{"content":""}}],"usage":{"completion_tokens":1}}`), stream)}},
		"reasoning only": {engine: script{"/v1/models": list, "/v1/chat/completions": chat(
			send(200, "application/json", `{"choices":[{"message":{"reasoning_content":"hm"}}]}`), stream)}},
		"completion":     {task: "completion", engine: script{"/v1/models": list, "/v1/completions": chat(send(200, "application/json", `{"choices":[{"text":"x"}]}`), stream)}},
		"embedding":      {task: "embedding", engine: script{"/v1/models": list, "/v1/embeddings": send(200, "application/json", `{"data":[{"embedding":[0,0.5]}]}`)}},
		"zero embedding": {task: "embedding", engine: script{"/v1/models": list, "/v1/embeddings": send(200, "application/json", `{"data":[{"embedding":[0,0]}]}`)}, code: executor.CodeGenerateFailed},
		"no token generated": {engine: script{"/v1/models": list, "/v1/chat/completions": chat(
			send(200, "application/json", `{"choices":[{"message":{"content":""}}],"usage":{"completion_tokens":0}}`), stream)}, code: executor.CodeGenerateFailed},
		"not JSON":   {engine: script{"/v1/models": list, "/v1/chat/completions": chat(send(200, "", "<html>"), stream)}, code: executor.CodeGenerateFailed},
		"no route":   {engine: script{"/v1/models": list}, code: executor.CodeGenerateFailed},
		"redirect":   {engine: script{"/v1/models": list, "/v1/chat/completions": chat(send(307, "", ""), stream)}, code: executor.CodeGenerateFailed},
		"no events":  {engine: script{"/v1/models": list, "/v1/chat/completions": chat(one, send(200, events, ": nothing\n\n"))}, code: executor.CodeStreamFailed},
		"bad events": {engine: script{"/v1/models": list, "/v1/chat/completions": chat(one, send(200, events, "data: {oops\n\n"))}, code: executor.CodeStreamFailed},
		"no stream":  {engine: script{"/v1/models": list, "/v1/chat/completions": one}, code: executor.CodeStreamFailed},
		"other name": {engine: script{"/v1/models": send(200, "", `{"data":[{"id":"other"}]}`)}, code: executor.CodeModelNameMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := probe(t, c.engine, func(target *Target) { target.Task = c.task })
			require.Equal(t, c.code, r.Code, r.Message)
			require.Equal(t, c.code == "", r.OK())
			if c.caps != nil {
				require.Equal(t, c.caps, r.Capabilities)
			}
		})
	}
}

func TestProber_Run_waitsWhileLoading(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	loading := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) < 4 {
				send(503, "", "Loading model")(w, r)
				return
			}
			then(w, r)
		}
	}
	one := send(200, "application/json", `{"choices":[{"message":{"content":"x"}}]}`)
	stream := send(200, events, "data: {\"choices\":[{}]}\n\n")
	r := probe(t, script{"/v1/models": loading(send(200, "", `{"data":[]}`)), "/v1/chat/completions": chat(one, stream)}, nil)
	require.True(t, r.OK(), r.Message)
}

func TestProber_Run_timeoutShowsLastResponse(t *testing.T) {
	t.Parallel()
	// The context ends during the third request.
	ctx, over := context.WithCancel(t.Context())
	var requests atomic.Int32
	server := httptest.NewServer(script{"/v1/models": func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 3 {
			over()
			<-r.Context().Done()
			return
		}
		send(503, "", "Loading model")(w, r)
	}})
	t.Cleanup(server.Close)
	r := NewProber(clock.Real()).Run(ctx, Target{Address: server.URL, Names: []string{"default"}, Deadline: time.Hour})
	require.Equal(t, executor.CodeModelNameMissing, r.Code)
	require.Contains(t, r.Message, "Loading model")
}

// closedPort returns an address that refuses connections. The port stays bound until the test ends, so that
// no other test uses it.
func closedPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprint("127.0.0.1:", name.(*syscall.SockaddrInet4).Port)
}

func TestProber_Run_portClosed(t *testing.T) {
	t.Parallel()
	address := "http://" + closedPort(t)
	r := probe(t, nil, func(target *Target) { target.Address, target.Deadline = address, 200*time.Millisecond })
	require.Equal(t, executor.CodePortTimeout, r.Code)
	require.Error(t, NewProber(clock.Real()).Bound(t.Context(), address))
}

func TestProber_Run_keyCheckedAndNotReported(t *testing.T) {
	t.Parallel()
	guarded := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" {
			send(401, "", "{}")(w, r)
			return
		}
		chat(send(200, "", `{"choices":[{"message":{"content":"x"}}]}`), send(200, events, "data: {\"choices\":[{}]}\n\n"))(w, r)
	}
	r := probe(t, script{"/v1/models": send(200, "", `{}`), "/v1/chat/completions": guarded}, nil)
	require.True(t, r.OK(), r.Message)
	require.True(t, r.Capabilities["key_checked"])
	require.NotContains(t, string(r.JSON()), "key\"", "the report must not contain the key")
	require.True(t, json.Valid(r.JSON()))
	require.False(t, strings.Contains(string(r.JSON()), "T0") || strings.Contains(string(r.JSON()), "2026"), "the report must not contain a timestamp")
}

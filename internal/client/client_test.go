package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// serving starts a server with the handler and returns a client that calls it.
func serving(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return New(server.URL+"/", server.Client().Transport)
}

func TestClient_Post(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer tok", r.Header.Get("Authorization"))
		require.Equal(t, "key-1", r.Header.Get("Idempotency-Key"))
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		raw, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.JSONEq(t, `{"a":1}`, string(raw))
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"x"}`)
	})
	var out struct{ ID string }
	require.NoError(t, c.With(secret.New("tok")).WithIdempotencyKey("key-1").Post(t.Context(), "/api/things", map[string]int{"a": 1}, &out))
	require.Equal(t, "x", out.ID)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status       int
		body         string
		detail, code string
	}{
		"text":     {409, `{"detail":"it exists","code":"exists"}`, "it exists", "exists"},
		"list":     {422, `{"detail":[{"loc":["body"],"msg":"m","type":"t"}]}`, `[{"loc":["body"],"msg":"m","type":"t"}]`, ""},
		"not json": {502, "bad gateway\n", "bad gateway", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			var e *Error
			require.ErrorAs(t, c.Get(t.Context(), "/x", nil, nil), &e)
			require.Equal(t, tc.status, e.Status)
			require.Equal(t, tc.detail, e.Detail)
			require.Equal(t, tc.code, e.Code)
		})
	}
}

func TestClient_Upload_noBearer(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header.Get("Authorization"))
		require.Equal(t, "v", r.Header.Get("X-Signed"))
		require.EqualValues(t, 3, r.ContentLength)
		w.WriteHeader(http.StatusOK)
	})
	err := c.With(secret.New("tok")).Upload(t.Context(), http.MethodPut, c.Base()+"/blob", map[string]string{"X-Signed": "v"}, []byte("abc"))
	require.NoError(t, err)
}

// events returns a handler that sends the given lines as an event stream and then ends the stream.
func events(lines string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, lines)
	}
}

func TestClient_Follow(t *testing.T) {
	t.Parallel()
	c := serving(t, events(": hello\n\nid: 1\nevent: line\ndata: a\ndata: b\n\nid:2\ndata:c\n\nid: 2\nevent: eof\ndata: {}\n\nid: 9\ndata: never\n\n"))
	var seen []Event
	last, err := c.Follow(t.Context(), "/s", "", func(e Event) error { seen = append(seen, e); return nil })
	require.NoError(t, err)
	require.Equal(t, "2", last)
	require.Equal(t, []Event{{ID: "1", Name: "line", Data: "a\nb"}, {ID: "2", Data: "c"}, {ID: "2", Name: "eof", Data: "{}"}}, seen)
}

func TestClient_Follow_cut(t *testing.T) {
	t.Parallel()
	c := serving(t, events("id: 1\ndata: a\n\n"))
	last, err := c.Follow(t.Context(), "/s", "", func(Event) error { return nil })
	require.ErrorIs(t, err, ErrUnexpectedEnd)
	require.Equal(t, "1", last)
}

func TestFollowResumes(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "id: 8\nevent: eof\ndata: %s\n\n", r.Header.Get("Last-Event-ID"))
	})
	var data string
	_, err := c.Follow(t.Context(), "/s", "7", func(e Event) error { data = e.Data; return nil })
	require.NoError(t, err)
	require.Equal(t, "7", data)
}

func TestFollowEndsWithReader(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	c := serving(t, events("id: 1\ndata: a\n\n"))
	_, err := c.Follow(t.Context(), "/s", "", func(Event) error { return stop })
	require.ErrorIs(t, err, stop)
}

func TestFollowRefused(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"detail":"no such run"}`)
	})
	var e *Error
	_, err := c.Follow(t.Context(), "/s", "", nil)
	require.ErrorAs(t, err, &e)
	require.Equal(t, 404, e.Status)
}

func TestChat(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/inference/dep_1/v1/chat/completions", r.URL.Path)
		var in ChatRequest
		require.NoError(t, json.NewDecoder(r.Body).Decode(&in))
		require.Equal(t, "1+1?", in.Messages[0].Content)
		require.Zero(t, in.Temperature, "greedy")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":" 2\n"}}]}`)
	})
	got, err := c.Chat(t.Context(), "dep_1", "1+1?")
	require.NoError(t, err)
	require.Equal(t, "2", got)
}

func TestChatStream(t *testing.T) {
	t.Parallel()
	chunk := func(text string) string { return `data: {"choices":[{"delta":{"content":"` + text + `"}}]}` + "\n\n" }
	for name, body := range map[string]string{
		"with done":           `data: {"choices":[{"delta":{"content":null}}]}` + "\n\n" + chunk("4") + ": keepalive\n\n" + chunk("2") + "data: {\"choices\":[]}\n\ndata: [DONE]\n\n",
		"without done, clean": chunk("4") + chunk("2"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, n, err := serving(t, events(body)).ChatStream(t.Context(), "dep_1", "q")
			require.NoError(t, err)
			require.Equal(t, "42", text)
			require.Equal(t, 2, n)
		})
	}
}

func TestClient_ChatStream_cut(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"4\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	_, _, err := c.ChatStream(t.Context(), "dep_1", "q")
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnexpectedEnd)
}

func TestClient_Call_cancelledContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := serving(t, events("")).Call(ctx, http.MethodGet, "/", nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestClient_Follow_eventWithoutData(t *testing.T) {
	t.Parallel()
	c := serving(t, events("id: 1\ndata: a\n\nid: 5\n\n: hello\n\ndata: b\n\n"))
	var seen []Event
	last, err := c.Follow(t.Context(), "/s", "", func(e Event) error { seen = append(seen, e); return nil })
	require.ErrorIs(t, err, ErrUnexpectedEnd)
	require.Equal(t, "5", last)
	require.Equal(t, []Event{{ID: "1", Data: "a"}, {Data: "b"}}, seen, "an event does not inherit an earlier ID")
}

// A store that refuses an upload may reset the connection at once, as S3 servers do.
func TestClient_Upload_seesRefusalOfLargeBody(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err = http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 8\r\nConnection: close\r\n\r\nexpired\n")
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}()
	for range 20 {
		err := New("", nil).Upload(t.Context(), http.MethodPut, "http://"+l.Addr().String()+"/x", nil, make([]byte, 8<<20))
		var refused *Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 403, refused.Status)
	}
}

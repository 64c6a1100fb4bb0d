package client

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestClient_sendsNoCredentialElsewhere(t *testing.T) {
	t.Parallel()
	other := make(chan http.Header, 4)
	foreign := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { other <- r.Header }))
	t.Cleanup(foreign.Close)
	// Another port is another installation, although net/http would keep the token.
	for _, to := range []string{foreign.URL, strings.Replace(foreign.URL, "127.0.0.1", "localhost", 1)} {
		bare := serving(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to+"/x?signature=hunter2", http.StatusTemporaryRedirect)
		})
		c := bare.With(secret.New("tok"))
		_, streamed := c.Follow(t.Context(), "/s", "", func(Event) error { return nil })
		for _, err := range []error{c.Get(t.Context(), "/api/x", nil, nil), bare.Post(t.Context(), "/api/x", "secret", nil), streamed} {
			var elsewhere *RedirectError
			require.ErrorAs(t, err, &elsewhere)
			require.Equal(t, to, elsewhere.To)
			require.False(t, Retryable(err))
			require.NotContains(t, err.Error(), "hunter2")
		}
		require.Empty(t, other)
		require.NoError(t, bare.Get(t.Context(), "/api/x", nil, nil), "a GET without a credential may leave")
		require.NotNil(t, <-other)
		require.NoError(t, c.Upload(t.Context(), http.MethodPut, to, nil, []byte("x")))
		require.Empty(t, (<-other).Get("Authorization"))
	}
}

func TestClient_followsRedirectOnSameServer(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
			return
		}
		_, _ = io.WriteString(w, strconv.Quote(r.Header.Get("Authorization")))
	})
	var got string
	require.NoError(t, c.With(secret.New("tok")).Get(t.Context(), "/old", nil, &got))
	require.Equal(t, "Bearer tok", got)
	endless := serving(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) })
	require.ErrorContains(t, endless.Get(t.Context(), "/x", nil, nil), "more than 10 redirects")
}

// The path is appended to the address: one that does not begin with a slash would name another host.
func TestClient_pathBeginsWithSlash(t *testing.T) {
	t.Parallel()
	c := New("http://127.0.0.1", nil).With(secret.New("tok"))
	for _, path := range []string{"", ".evil.example", "@evil.example/x", ":8080/x"} {
		require.ErrorContains(t, c.Get(t.Context(), path, nil, nil), "a path begins with a slash")
		_, err := c.Follow(t.Context(), path, "", nil)
		require.ErrorContains(t, err, "a path begins with a slash")
	}
}

func TestClient_Call_responseTooLarge(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxBody+1)) })
	_, err := c.Call(t.Context(), http.MethodGet, "/x", nil)
	require.ErrorContains(t, err, "more than 32 MiB", "a response is never cut silently")
}

func TestClient_With_doesNotChangeOriginal(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 8)
	bare := serving(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	keyed := bare.With(secret.New("tok")).WithIdempotencyKey("k")
	again := keyed.With(secret.New("other"))
	for c, want := range map[*Client][2]string{bare: {"", ""}, keyed: {"Bearer tok", "k"}, again: {"Bearer other", ""}} {
		require.NoError(t, c.Post(t.Context(), "/x", nil, nil))
		h := <-seen
		require.Equal(t, want, [2]string{h.Get("Authorization"), h.Get("Idempotency-Key")})
		require.Empty(t, h.Get("Content-Type"), "a request without a body has no content type")
	}
}

func TestQueriesAreEscaped(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, strconv.Quote(r.URL.RawQuery)) })
	var got string
	require.NoError(t, c.Get(t.Context(), "/x", url.Values{"name": {"a b&c=d"}, "q": {"é"}}, &got))
	require.Equal(t, "name=a+b%26c%3Dd&q=%C3%A9", got)
}

func TestClient_Get_invalidResponses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"not JSON":         {200, "<html>", "decode the response to GET /x"},
		"wrong type":       {200, `{"id":3}`, "decode the response to GET /x"},
		"truncated JSON":   {200, `{"id":"a"`, "decode the response to GET /x"},
		"not modified":     {304, "", "304: "},
		"empty body":       {500, "", "500: internal server error"},
		"null body":        {500, "null", "500: null"},
		"null detail":      {500, `{"detail":null}`, "500: "},
		"object as detail": {409, `{"detail":{"at":"x"}}`, `409: {"at":"x"}`},
		"list as body":     {422, `[1]`, "422: [1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			var out struct{ ID string }
			require.ErrorContains(t, c.Get(t.Context(), "/x", nil, &out), tc.want)
		})
	}
}

func TestClient_Do_successStatuses(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 202, 204} {
		c := serving(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		var out struct{ ID string }
		require.NoError(t, c.Post(t.Context(), "/x", map[string]int{}, &out), status)
		require.Empty(t, out.ID, "the target must be unchanged if the response has no body")
	}
}

func TestClient_Get_truncatedBody(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"id":"x"}`)
	})
	var out struct{ ID string }
	require.ErrorIs(t, c.Get(t.Context(), "/x", nil, &out), io.ErrUnexpectedEOF)
	require.Empty(t, out.ID)
}

func TestClient_errorsHideCredentials(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c := New(gone.URL, nil).With(secret.New("hunter2"))
	err := c.Post(t.Context(), "/api/x", map[string]string{"password": "hunter2"}, nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
	require.ErrorContains(t, c.Post(t.Context(), "/x", make(chan int), nil), "encode the body")
	require.ErrorContains(t, c.Get(t.Context(), "/x\x7f", nil, nil), "create the request GET")
	require.Error(t, c.Upload(t.Context(), "BAD METHOD", "http://x", nil, nil))
	for _, address := range []string{gone.URL + "/b?X-Sig=hunter2", "http://h\x7f/b?X-Sig=hunter2", "ftp://h/b?X-Sig=hunter2"} {
		err := c.Upload(t.Context(), http.MethodPut, address, nil, []byte("x"))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hunter2", address)
	}
	require.NotContains(t, c.Get(t.Context(), "/x\x7f?q=hunter2", nil, nil).Error(), "hunter2")
}

func TestPlainPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/x?sig=hunter2": "/api/x", "/api/share/hunter2": "/api/share/[redacted]", "/api/shares/s": "/api/shares/s",
		"/api/share/hunter2/metrics?a=1": "/api/share/[redacted]/metrics",
	} {
		require.Equal(t, want, PlainPath(path))
	}
}

func TestUnreachableError(t *testing.T) {
	t.Parallel()
	inner := &url.Error{Op: "Get", URL: "http://h/?sig=hunter2", Err: &url.Error{Op: "parse", URL: "x?sig=hunter2", Err: io.EOF}}
	err := &UnreachableError{Base: "http://h", Request: "upload", Err: inner}
	require.EqualError(t, err, "cannot reach http://h (upload): EOF")
	require.ErrorIs(t, err, io.EOF)
}

func TestClient_Upload_refused(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"detail":"the signature is over","code":"signature_expired"}`+strings.Repeat(" ", 1<<20))
	})
	err := c.Upload(t.Context(), http.MethodPut, c.Base()+"/blob", nil, []byte("x"))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 403, e.Status)
	require.LessOrEqual(t, len(e.Body), 4096, "only the start of an object store's response is read")
}

func TestClient_Follow_streamFormats(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []Event
		last string
		err  error
	}{
		"CRLF and LF":           {"data: a\r\n\r\nevent: eof\ndata: x\n\n", []Event{{Data: "a"}, {Name: "eof", Data: "x"}}, "", nil},
		"fields without spaces": {"id:3\nevent:e\ndata:a\n\nevent:eof\n\n", []Event{{ID: "3", Name: "e", Data: "a"}, {Name: "eof"}}, "3", nil},
		"one space is trimmed":  {"data:  a\n\nevent: eof\n\n", []Event{{Data: " a"}, {Name: "eof"}}, "", nil},
		"colons in the data":    {"data: a: b\n\nevent: eof\n\n", []Event{{Data: "a: b"}, {Name: "eof"}}, "", nil},
		"unknown fields":        {"retry: 5\nx: y\ndata\n\nevent: eof\n\n", []Event{{Data: ""}, {Name: "eof"}}, "", nil},
		"no end":                {"id: 1\ndata: a\n\nid: 2\ndata: half", []Event{{ID: "1", Data: "a"}}, "1", ErrUnexpectedEnd},
		"empty stream":          {"", nil, "", ErrUnexpectedEnd},
		"comments only":         {": a\n\n: b\n\n", nil, "", ErrUnexpectedEnd},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []Event
			last, err := serving(t, events(tc.text)).Follow(t.Context(), "/s", "", func(e Event) error { seen = append(seen, e); return nil })
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.want, seen)
			require.Equal(t, tc.last, last)
		})
	}
}

func TestClient_Follow_lineTooLong(t *testing.T) {
	t.Parallel()
	c := serving(t, events("id: 1\ndata: a\n\ndata: "+strings.Repeat("x", maxLine)+"\n\n"))
	last, err := c.Follow(t.Context(), "/s", "", func(Event) error { return nil })
	require.ErrorContains(t, err, "read the stream")
	require.NotErrorIs(t, err, ErrUnexpectedEnd, "a client must not resume after this error")
	require.Equal(t, "1", last)
}

func TestClient_Follow_cancelClosesStream(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: a\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	ctx, leave := context.WithCancel(t.Context())
	_, err := c.Follow(ctx, "/s", "7", func(Event) error { leave(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	<-left
}

func TestClient_chatErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body, want string
		stream     bool
	}{
		"no choices":    {`{"choices":[]}`, "has no choices", false},
		"not JSON":      {`ok`, "decode the response to POST", false},
		"invalid chunk": {"data: {\n\n", "decode a chunk", true},
		"error event":   {`data: {"error":{"message":"the connection to the engine was lost"}}` + "\n\n", "the connection to the engine was lost", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serving(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.body) })
			var err error
			if tc.stream {
				_, _, err = c.ChatStream(t.Context(), "dep_1", "q")
			} else {
				_, err = c.Chat(t.Context(), "dep_1", "q")
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

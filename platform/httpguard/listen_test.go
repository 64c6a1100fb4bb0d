package httpguard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/httpguard"
)

// serve starts a server with the handler on a JSONErrors listener and returns its address.
func serve(t *testing.T, handler http.HandlerFunc) (addr string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 4 << 10, ConnState: httpguard.State}
	done := make(chan error, 1)
	go func() { done <- server.Serve(httpguard.JSONErrors(l, func() string { return "req_1" })) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return l.Addr().String()
}

// response is a response whose body was read.
type response struct {
	status int
	header http.Header
	closes bool
	body   string
}

// send writes raw bytes and reads the response.
func send(t *testing.T, addr, raw string) response {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, raw)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return response{resp.StatusCode, resp.Header, resp.Close, string(body)}
}

func TestJSONErrors_serverErrorsAreJSON(t *testing.T) {
	t.Parallel()
	addr := serve(t, func(http.ResponseWriter, *http.Request) { require.Fail(t, "the handler was called") })
	for name, tc := range map[string]struct {
		raw    string
		status int
		code   string
	}{
		"headers too long":          {"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 16<<10) + "\r\n\r\n", 400, "headers_too_large"},
		"no host":                   {"GET / HTTP/1.1\r\n\r\n", 400, "malformed_request"},
		"two hosts":                 {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "malformed_request"},
		"not HTTP":                  {"nonsense\r\n\r\n", 400, "malformed_request"},
		"header without a name":     {"GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n", 400, "malformed_request"},
		"space before the colon":    {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400, "malformed_request"},
		"unknown transfer encoding": {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "transfer_encoding"},
		"invalid escape":            {"GET /api/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed_request"},
		"engine, invalid escape":    {"GET /inference/d/v1/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "malformed_request"},
		"engine, headers too long":  {"GET /inference/d/v1/x HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 16<<10) + "\r\n\r\n", 400, "headers_too_large"},
		"engine, far too long":      {"GET /inference/d/v1/x HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 200<<10) + "\r\n\r\n", 400, "headers_too_large"},
		"engine, bare LF":           {"GET /inference/d/v1/x HTTP/1.1\nHost: x\r\n\r\n", 400, "malformed_request"},
		"engine, no host":           {"GET /inference/d/v1/x HTTP/1.1\r\n\r\n", 400, "malformed_request"},
		"engine, transfer encoding": {"POST /inference/d/v1/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "transfer_encoding"},
		"engine of playground":      {"GET /api/playground/sessions/pg_1/targets/1/v1/x HTTP/1.1\nHost: x\r\n\r\n", 400, "malformed_request"},
		"engine, version":           {"GET /inference/d/v1/x HTTP/3.1\r\nHost: x\r\n\r\n", 505, "malformed_request"},
		"two lengths":               {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "malformed_request"},
	} {
		got := send(t, addr, tc.raw)
		require.Equal(t, tc.status, got.status, name)
		require.Equal(t, "application/json", got.header.Get("Content-Type"), name)
		require.Equal(t, "req_1", got.header.Get("X-Request-Id"), name)
		require.True(t, got.closes, name)
		var problem struct {
			Detail, Code string
			Error        *struct {
				Message, Type, Code string
				Param               *string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(got.body), &problem), "%s: %s", name, got.body)
		require.Equal(t, strings.HasPrefix(name, "engine"), problem.Error != nil, "%s: %s", name, got.body)
		if problem.Error != nil {
			require.Equal(t, []string{problem.Detail, "invalid_request_error", problem.Code}, []string{problem.Error.Message, problem.Error.Type, problem.Error.Code}, name)
		}
		require.NotEmpty(t, problem.Detail, name)
		require.Equal(t, tc.code, problem.Code, name)
	}
}

// Responses of handlers and bytes of upgraded connections pass unchanged even if they look like an error of net/http.
func TestJSONErrors_handlerResponsesUnchanged(t *testing.T) {
	t.Parallel()
	const lie = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/plain":
			w.Header().Set("Connection", "close")
			http.Error(w, "mine", http.StatusBadRequest)
		case "/lie":
			_, _ = io.WriteString(w, lie)
		case "/upgraded":
			conn, _, err := http.NewResponseController(w).Hijack()
			require.NoError(t, err)
			_, _ = io.WriteString(conn, lie)
			_ = conn.Close()
		case "/file":
			_, err := io.Copy(w, io.LimitReader(strings.NewReader(strings.Repeat("x", 100_000)), 100_000))
			require.NoError(t, err)
		}
	})
	get := func(path string) response {
		return send(t, addr, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}
	mine := get("/plain")
	require.Equal(t, "mine\n", mine.body)
	require.Equal(t, "text/plain; charset=utf-8", mine.header.Get("Content-Type"))
	require.Equal(t, lie, get("/lie").body)
	upgraded := get("/upgraded")
	require.Equal(t, "400 Bad Request", upgraded.body)
	require.Empty(t, upgraded.header.Get("X-Request-Id"))
	require.Len(t, get("/file").body, 100_000)
}

func TestJSONErrors_acceptOnClosedListener(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	wrapped := httpguard.JSONErrors(l, nil)
	require.NoError(t, wrapped.Close())
	_, err = wrapped.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	httpguard.State(&net.TCPConn{}, http.StateHijacked)
}

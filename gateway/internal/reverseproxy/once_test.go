package reverseproxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/reverseproxy"
)

// keptUntilSecond starts a service that responds to the first request of a connection, and closes the connection after
// the second one. It counts the requests with a body.
func keptUntilSecond(t *testing.T) (address string, got *atomic.Int32) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	got = &atomic.Int32{}
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		in := bufio.NewReader(c)
		for range 2 {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(req.Body)
			if len(body) > 0 {
				got.Add(1)
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	}
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(c) })
		}
	})
	return l.Addr().String(), got
}

// net/http repeats a request with a key on a new connection if the old one was lost. An engine would then work on it
// twice, and a third time if the client repeated it after 503.
func TestCallToInferenceSentOnce(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
		address, got := keptUntilSecond(t)
		r := newHarness(t, reverseproxy.Upstream{Service: "inference", SendOnce: true, Address: address})
		resp, _ := do(t, request(t, http.MethodGet, r.front.URL, nil))
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		req := request(t, http.MethodPost, r.front.URL, strings.NewReader("x"))
		if key != "" {
			req.Header.Set(key, "k")
			req.GetBody = nil // the test's own client must not repeat the request either
		}
		resp, _ = do(t, req)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
		require.Equal(t, int32(1), got.Load(), "header %q", key)
	}
}

// A call that reached nothing may be repeated.
func TestUnsentCallMayBeRepeated(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	r := newHarness(t, reverseproxy.Upstream{Service: "inference", SendOnce: true, Address: l.Addr().String()})
	resp, _ := do(t, request(t, http.MethodPost, r.front.URL, strings.NewReader("x")))
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Empty(t, resp.Header.Get("X-Should-Retry"))
}

func TestIdempotencyKeyReachesInference(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	back := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) { got <- in.Header.Get("Idempotency-Key") }))
	t.Cleanup(back.Close)
	r := newHarness(t, reverseproxy.Upstream{Service: "inference", SendOnce: true, Address: back.Listener.Addr().String()})
	req := request(t, http.MethodPost, r.front.URL, strings.NewReader("x"))
	req.Header.Set("Idempotency-Key", "k")
	_, _ = do(t, req)
	require.Equal(t, "k", <-got)
}

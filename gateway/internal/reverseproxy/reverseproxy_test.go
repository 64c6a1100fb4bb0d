package reverseproxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-dev/signalbox/gateway/internal/reverseproxy"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a relay in front of a service.
type harness struct {
	front *httptest.Server
	log   *bytes.Buffer
}

func newHarness(t *testing.T, up reverseproxy.Upstream) *harness {
	t.Helper()
	log := &bytes.Buffer{}
	r := reverseproxy.New(up, slog.New(slog.NewTextHandler(log, nil)),
		func(*http.Request) string { return "203.0.113.7" },
		func(w http.ResponseWriter, _ *http.Request, err error) { fault.Write(w, err, "req_1") })
	front := httptest.NewServer(r)
	t.Cleanup(func() { front.Close(); r.Close() })
	return &harness{front: front, log: log}
}

func over(t *testing.T, service http.HandlerFunc) *harness {
	t.Helper()
	back := httptest.NewServer(service)
	t.Cleanup(back.Close)
	return newHarness(t, reverseproxy.Upstream{Service: "ingest", Address: back.Listener.Addr().String()})
}

// response is the status and header of a response.
type response struct {
	StatusCode int
	Header     http.Header
}

func do(t *testing.T, req *http.Request) (response, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return response{resp.StatusCode, resp.Header}, string(body)
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	return req
}

func TestRequestReachesServiceUnchanged(t *testing.T) {
	t.Parallel()
	var got http.Header
	r := over(t, func(w http.ResponseWriter, req *http.Request) {
		got = req.Header
		body, _ := io.ReadAll(req.Body)
		w.Header().Set("X-Reply", "a")
		w.Header().Add("Set-Cookie", "kept=for-the-service-to-judge")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, req.Method+" "+req.Host+" "+req.URL.RequestURI()+" "+string(body))
	})
	req := request(t, http.MethodPost, r.front.URL+"/api/ingest/logs?a=1&b=%2F", strings.NewReader("body"))
	req.Host = "signalbox.example"
	for name, value := range map[string]string{
		"Authorization": "Bearer ing_secret", "X-Service-Token": "ing_secret", "Idempotency-Key": "w:1", "Content-Type": "application/json",
		"Accept-Encoding": "gzip", "Connection": "X-Drop, keep-alive", "X-Drop": "1", "Te": "trailers", "Proxy-Authorization": "x",
		"X-Forwarded-For": "6.6.6.6", "Forwarded": "for=6.6.6.6", "X-Real-Ip": "6.6.6.6", "X-Forwarded-Host": "evil", "Cookie": "service_refresh=x",
	} {
		req.Header.Set(name, value)
	}
	req.Header["User-Agent"] = nil
	resp, body := do(t, req)
	require.Equal(t, http.StatusTeapot, resp.StatusCode)
	require.Equal(t, "POST signalbox.example /api/ingest/logs?a=1&b=%2F body", body)
	require.Equal(t, "a", resp.Header.Get("X-Reply"))
	require.Equal(t, http.Header{
		"Authorization": {"Bearer ing_secret"}, "X-Service-Token": {"ing_secret"}, "Idempotency-Key": {"w:1"},
		"Content-Type": {"application/json"}, "Accept-Encoding": {"gzip"}, "Content-Length": {"4"}, "X-Forwarded-For": {"203.0.113.7"},
	}, got)
}

func TestResponsePiecesArriveImmediately(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	r := over(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Usage")
		_ = http.NewResponseController(w).Flush()
		for text := range next {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Usage", "3")
	})
	resp, err := http.DefaultTransport.RoundTrip(request(t, http.MethodGet, r.front.URL, nil))
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	buf := make([]byte, 16)
	for _, text := range []string{"one\n\n", "two\n\n"} {
		next <- text
		n, err := resp.Body.Read(buf)
		require.NoError(t, err)
		require.Equal(t, text, string(buf[:n]))
	}
	close(next)
	_, err = resp.Body.Read(buf)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "3", resp.Trailer.Get("X-Usage"))
}

func TestResponseStartsBeforeBodyEnds(t *testing.T) {
	t.Parallel()
	r := over(t, func(w http.ResponseWriter, req *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		buf := make([]byte, 4)
		for {
			n, err := io.ReadFull(req.Body, buf)
			_, _ = w.Write(buf[:n])
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	})
	body, send := io.Pipe()
	first := make(chan error, 1)
	go func() { _, err := send.Write([]byte("ping")); first <- err }()
	resp, err := http.DefaultTransport.RoundTrip(request(t, http.MethodPost, r.front.URL, body))
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	require.NoError(t, <-first)
	buf := make([]byte, 4)
	for _, text := range []string{"ping", "pong", "pang"} {
		if text != "ping" {
			_, err := send.Write([]byte(text))
			require.NoError(t, err)
		}
		_, err := io.ReadFull(resp.Body, buf)
		require.NoError(t, err)
		require.Equal(t, text, string(buf))
	}
	require.NoError(t, send.Close())
}

func TestLargeBodiesAreStreamed(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	r := over(t, func(w http.ResponseWriter, req *http.Request) {
		n, err := io.Copy(io.Discard, req.Body)
		if err != nil || n != size || req.ContentLength != size {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	resp, _ := do(t, request(t, http.MethodPut, r.front.URL, bytes.NewReader(make([]byte, size))))
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestBrokenResponseIsCut(t *testing.T) {
	t.Parallel()
	r := over(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	resp, err := http.DefaultTransport.RoundTrip(request(t, http.MethodGet, r.front.URL, nil))
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.Equal(t, "half", string(body))
	require.Error(t, err)
	require.NoError(t, resp.Body.Close())
}

func TestRelayServiceUnreachable(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	r := newHarness(t, reverseproxy.Upstream{Service: "ingest", Address: l.Addr().String()})
	resp, body := do(t, request(t, http.MethodPost, r.front.URL, strings.NewReader("x")))
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.JSONEq(t, `{"detail":"ingest is not available"}`, body)
	require.NotContains(t, body, l.Addr().String())
	require.Contains(t, r.log.String(), "service cannot be reached")
}

func TestTruncatedBodyRefused(t *testing.T) {
	t.Parallel()
	r := over(t, func(http.ResponseWriter, *http.Request) { t.Error("the service must not be called") })
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.front.Listener.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, conn.Close())
}

func TestInvalidChunksAreClientFault(t *testing.T) {
	t.Parallel()
	r := over(t, func(w http.ResponseWriter, req *http.Request) { _, _ = io.Copy(w, req.Body) })
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.front.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST /api/ingest/logs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"code":"body_cut"`)
	require.Empty(t, r.log.String(), "the failure is not logged as the service's")
}

func TestClientLeavingEndsCall(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	begun := make(chan struct{})
	r := over(t, func(_ http.ResponseWriter, req *http.Request) {
		close(begun)
		<-req.Context().Done()
		close(ended)
	})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		resp, err := http.DefaultTransport.RoundTrip(request(t, http.MethodGet, r.front.URL, nil).WithContext(ctx))
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-begun
	leave()
	<-ended
	<-gone
}

func TestEndedCallReturnsCause(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	back := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		close(begun)
		<-req.Context().Done()
	}))
	t.Cleanup(back.Close)
	r := reverseproxy.New(reverseproxy.Upstream{Service: "ingest", Address: back.Listener.Addr().String()}, slog.New(slog.DiscardHandler),
		func(*http.Request) string { return "203.0.113.7" },
		func(w http.ResponseWriter, _ *http.Request, err error) { fault.Write(w, err, "req_1") })
	t.Cleanup(r.Close)
	ctx, cut := context.WithCancelCause(t.Context())
	go func() {
		<-begun
		cut(fault.New(fault.Unauthenticated, "token_revoked", "Could not validate credentials"))
	}()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	require.Equal(t, http.StatusUnauthorized, w.Code, w.Body)
}

func TestRelayVerifiesServiceCertificate(t *testing.T) {
	t.Parallel()
	back := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, req.Proto)
	}))
	back.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	back.StartTLS()
	t.Cleanup(back.Close)
	trust := back.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.ServerName = "example.com"
	r := newHarness(t, reverseproxy.Upstream{Service: "ingest", Address: back.Listener.Addr().String(), TLS: trust})
	_, body := do(t, request(t, http.MethodGet, r.front.URL, nil))
	require.Equal(t, "HTTP/1.1", body)

	wary := newHarness(t, reverseproxy.Upstream{Service: "ingest", Address: back.Listener.Addr().String(), TLS: &tls.Config{MinVersion: tls.VersionTLS13}})
	resp, _ := do(t, request(t, http.MethodGet, wary.front.URL, nil))
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
}

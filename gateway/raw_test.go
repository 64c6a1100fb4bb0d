package gateway_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway"
)

// startTLSServer starts an HTTP server with TLS, in place of a service that runs in another process.
func startTLSServer(t *testing.T, h http.HandlerFunc) (addr string, trust *tls.Config) {
	t.Helper()
	back := httptest.NewUnstartedServer(h)
	back.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	back.StartTLS()
	t.Cleanup(back.Close)
	trust = back.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.ServerName = "example.com"
	return back.Listener.Addr().String(), trust
}

func TestRawRoutesRelayToRemoteService(t *testing.T) {
	t.Parallel()
	var got http.Header
	addr, trust := startTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Request-Id", "req_of_the_service")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write(body)
	})
	dialed := ""
	r := start(t, func(c *gateway.Config, d *gateway.Deps) {
		c.IngestAddr, d.Ingest = addr, nil
		d.RelayTLS = func(service string) *tls.Config { dialed = service; return trust }
	})
	resp := r.do("POST", "/api/ingest/metrics", "payload", "Authorization", "Bearer ing_x", "X-Service-Token", "ing_x", "X-Forwarded-For", "6.6.6.6")
	require.Equal(t, "ingest", dialed)
	require.Equal(t, http.StatusAccepted, resp.status)
	require.Equal(t, "payload", resp.body)
	require.Equal(t, "req_of_the_service", resp.header.Get("X-Request-Id"))
	require.Equal(t, "Bearer ing_x", got.Get("Authorization"))
	require.Equal(t, "ing_x", got.Get("X-Service-Token"))
	require.Equal(t, []string{"127.0.0.1"}, got.Values("X-Forwarded-For"))
	require.Empty(t, r.all(), "the gateway does not check the bearer of a raw route")
}

func TestUnavailableServiceErrorFormat(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *gateway.Config, d *gateway.Deps) {
		c.IngestAddr, c.InferenceAddr = "127.0.0.1:1", "127.0.0.1:1"
		d.Ingest, d.Inference = nil, nil
		d.RelayTLS = func(string) *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS13} }
	})
	ingest := r.do("POST", "/api/ingest/metrics", "x")
	require.Equal(t, http.StatusServiceUnavailable, ingest.status)
	require.JSONEq(t, `{"detail":"ingest is not available"}`, ingest.body)
	require.NotEmpty(t, ingest.header.Get("X-Request-Id"))
	inference := r.do("POST", "/inference/dep_1/v1/chat/completions", "x")
	require.Equal(t, http.StatusServiceUnavailable, inference.status)
	require.Equal(t, "inference is not available", inference.json(t)["error"].(map[string]any)["message"])
}

func TestStopCutsTunnels(t *testing.T) {
	t.Parallel()
	addr, trust := startTLSServer(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(io.Discard, rw) // until the other side closes the connection
	})
	r := start(t, func(c *gateway.Config, d *gateway.Deps) {
		c.InferenceAddr, d.Inference = addr, nil
		d.RelayTLS = func(string) *tls.Config { return trust }
	})
	conn, stop := r.runAndDial(50 * time.Millisecond)
	_, err := io.WriteString(conn, "GET /inference/dep_1/v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(t, err)
	head := make([]byte, len("HTTP/1.1 101"))
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 101", string(head))
	require.NoError(t, stop())
	_, err = io.Copy(io.Discard, conn)
	require.NoError(t, err, "the connection is closed after the grace period")
}

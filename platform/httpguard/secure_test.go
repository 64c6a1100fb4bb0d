package httpguard

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stop would otherwise close kept connections of TLS while a request is on its way.
func TestListener_Settle_watchesTLS(t *testing.T) {
	t.Parallel()
	tcp, err := Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	l := JSONErrors(tcp, func() string { return "req_1" })
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	l.Secure(&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS13})
	inside := make(chan bool, 1)
	server := &http.Server{ConnState: State, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, active := l.connections.unused(0)
		inside <- active && r.TLS != nil
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	resp, err := certified.Client().Get("https://" + l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.True(t, <-inside, "the request is open")
	began := l.connections.elapsed()
	require.Eventually(t, func() bool {
		longest, active := l.connections.unused(began)
		return longest > 0 && !active
	}, time.Minute, time.Millisecond, "the kept connection is idle")
	require.NoError(t, server.Shutdown(t.Context()))
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	require.Eventually(t, func() bool { longest, active := l.connections.unused(began); return longest <= 0 && !active }, time.Minute, time.Millisecond)
}

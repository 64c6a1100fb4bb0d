package boot

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	status.Store(http.StatusOK)
	l := listener(t)
	stop := started(t, HTTPWorker("admin", l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			status.Store(http.StatusNotFound)
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"status":"of the test"}`)
	})), patience)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	for _, address := range []string{l.Addr().String(), ":" + port, "0.0.0.0:" + port, "[::]:" + port} {
		out, _, err := call(t, Spec{Name: "auth"}, map[string]string{"SERVICE_ADMIN_LISTEN": address}, "healthcheck")
		require.NoError(t, err, address)
		require.Equal(t, "{\"status\":\"of the test\"}\n", out)
	}
	status.Store(http.StatusServiceUnavailable)
	env := map[string]string{"SERVICE_ADMIN_LISTEN": l.Addr().String()}
	out, _, err := call(t, Spec{Name: "auth"}, env, "healthcheck")
	require.ErrorContains(t, err, "the process is not ready: /readyz responded with status 503")
	require.Contains(t, out, "of the test", "the response names the check that failed")
	require.NoError(t, stop())
	_, _, err = call(t, Spec{Name: "auth"}, env, "healthcheck")
	require.ErrorContains(t, err, "connection refused")
}

func TestHealthcheck_needsAdminListener(t *testing.T) {
	t.Parallel()
	_, _, err := call(t, Spec{Name: "auth"}, nil, "healthcheck")
	require.ErrorContains(t, err, "SERVICE_ADMIN_LISTEN must be set")
	_, _, err = call(t, Spec{Name: "auth"}, map[string]string{"SERVICE_ADMIN_LISTEN": "9100"}, "healthcheck")
	require.ErrorContains(t, err, "SERVICE_ADMIN_LISTEN: must be host:port")
}

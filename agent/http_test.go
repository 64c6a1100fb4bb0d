package agent

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNewHTTP_stalledDownloadFails(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "8")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/stalled" {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "half")
	}))
	defer server.Close()
	// The time must be long enough for the server of the test to respond on a busy machine.
	client := newHTTP(3 * time.Second)
	defer client.CloseIdleConnections()
	get := func(path string) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	body, err := get("/stalled")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, "half", body)
	body, err = get("/")
	require.NoError(t, err)
	require.Equal(t, "halfhalf", body)
}
